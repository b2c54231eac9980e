//! Where bytes lie on the platters, and how long the head takes to them.
//!
//! The surface is one spiral: the skew between tracks hides the switch from one to the next, so that what lies
//! together is read at the zone's rate. A byte's *turn* is the time after which it would pass the head if all were
//! read from the outer end on: whole rotations of it are the track, the rest is the angle.

use ferrite_memory::planted;

use super::profile::HddProfile;

/// Zones, each with as many tracks as another.
const ZONES: u64 = 16;

/// The surface of a drive.
pub(super) struct Platter {
    rotation_ns: u64,
    zones: Vec<PlatterZone>,
    tracks: u64,
    track_seek_ns: u64,
    average_seek_ns: u64,
    full_seek_ns: u64,
    /// Where the platters stand at time 0.
    phase_ns: u64,
}

struct PlatterZone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

impl Platter {
    /// The surface of a drive of `profile` with a disk of `size` bytes on it.
    pub fn new(profile: &HddProfile, size: u64, seed: u64) -> Self {
        let rotation_ns = 60_000_000_000 / u64::from(profile.rpm.max(1));
        let drive_bytes = profile.capacity_bytes.max(size).max(1);
        let track_bytes = |zone: u64| {
            let fall = profile.outer_bytes_per_s.saturating_sub(profile.inner_bytes_per_s);
            let rate = profile.outer_bytes_per_s - fall * zone / (ZONES - 1);
            (u128::from(rate) * u128::from(rotation_ns) / 1_000_000_000).max(512) as u64
        };
        let zone_tracks = drive_bytes.div_ceil((0..ZONES).map(track_bytes).sum());
        let mut zones = Vec::new();
        let mut first_byte = 0;
        for zone in 0..ZONES {
            zones.push(PlatterZone { first_byte, first_track: zone * zone_tracks, track_bytes: track_bytes(zone) });
            first_byte += zone_tracks * track_bytes(zone);
        }
        Self {
            rotation_ns,
            zones,
            tracks: ZONES * zone_tracks,
            track_seek_ns: profile.track_seek_ns,
            average_seek_ns: profile.average_seek_ns,
            full_seek_ns: profile.full_seek_ns,
            phase_ns: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % rotation_ns,
        }
    }

    fn zone(&self, byte: u64) -> &PlatterZone {
        let next = self.zones.partition_point(|zone| zone.first_byte <= byte);
        &self.zones[next - 1]
    }

    fn track(&self, byte: u64) -> u64 {
        self.turn_ns(byte) / self.rotation_ns
    }

    fn turn_ns(&self, byte: u64) -> u64 {
        let zone = self.zone(byte);
        let within = byte - zone.first_byte;
        let angle_ns = within % zone.track_bytes * self.rotation_ns / zone.track_bytes;
        (zone.first_track + within / zone.track_bytes) * self.rotation_ns + angle_ns
    }

    /// How long the bytes `from .. to` take to pass the head.
    pub fn transfer_ns(&self, from: u64, to: u64) -> u64 {
        self.turn_ns(to).saturating_sub(self.turn_ns(from))
    }

    /// The byte that passes the head `after_ns` after `from` did, without a seek.
    pub fn byte_after(&self, from: u64, after_ns: u64) -> u64 {
        let turn_ns = self.turn_ns(from) + after_ns;
        let (track, angle_ns) = (turn_ns / self.rotation_ns, turn_ns % self.rotation_ns);
        let next = self.zones.partition_point(|zone| zone.first_track <= track);
        let zone = &self.zones[next - 1];
        let within = (track - zone.first_track) * zone.track_bytes + angle_ns * zone.track_bytes / self.rotation_ns;
        zone.first_byte + within
    }

    /// How long the head takes from `from` to the track of `to`, and `settle_ns` more if it moves at all.
    pub fn seek_ns(&self, from: u64, to: u64, settle_ns: u64) -> u64 {
        let distance = self.track(from).abs_diff(self.track(to));
        if distance == 0 { 0 } else { self.curve_ns(distance) + settle_ns }
    }

    /// The seek curve: from one track's time it grows like the square root up to a third of the stroke, the mean
    /// distance of two random places, and straight from there to the full stroke.
    fn curve_ns(&self, tracks: u64) -> u64 {
        let third = tracks as f64 * 3.0 / self.tracks as f64;
        let [least, mean, most] = [self.track_seek_ns, self.average_seek_ns, self.full_seek_ns].map(|ns| ns as f64);
        let ns = if third <= 1.0 {
            least + (mean - least) * third.sqrt()
        } else {
            mean + (most - mean) * ((third - 1.0) / 2.0).min(1.0)
        };
        ns as u64
    }

    /// How long after `at_ns` the byte passes the head (H2).
    pub fn rotation_wait_ns(&self, byte: u64, at_ns: u64) -> u64 {
        let at_ns = if planted!("disk: platters stand still between requests") { 0 } else { at_ns };
        let stands_ns = (at_ns + self.phase_ns) % self.rotation_ns;
        (self.turn_ns(byte) % self.rotation_ns + self.rotation_ns - stands_ns) % self.rotation_ns
    }
}
