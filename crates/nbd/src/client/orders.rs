//! The commands to send for a request, according to the server's offers (C6).

use ferrite_disk::{Access, Disk, Op, Zeroing};
use ferrite_memory::{Error, Result, Span};

use super::connection::Connection;
use super::flight::Order;
use crate::consts::{command, command_flag, transmission};

/// Size in bytes of each write of zeros to a server that cannot zero.
const ZEROS_BYTES: u64 = 256 << 10;

impl Connection {
    pub(super) fn offers(&self, flag: u16) -> bool {
        self.export.flags & flag != 0
    }

    /// Returns the command to send for a request, or `None` if no command is needed.
    pub(super) fn order(&self, op: Op, span: Span) -> Result<Option<Order>> {
        self.check(span)?;
        if self.export.read_only && !matches!(op, Op::Read | Op::Flush) {
            return Err(Error::ReadOnly);
        }
        let plain = |command| Order { command, flags: 0, span, then_flush: false };
        match op {
            Op::Flush if self.export.read_only => Ok(None),
            Op::Flush if !self.offers(transmission::SEND_FLUSH) => {
                Err(Error::Unsupported(format!("{} cannot flush, so nothing on it is ever durable", self.uri)))
            }
            Op::Flush => Ok(Some(Order { span: Span::new(0, 0), ..plain(command::FLUSH) })),
            _ if span.len == 0 => Ok(None),
            Op::Read => Ok(Some(plain(command::READ))),
            Op::Write(access) => self.durable(plain(command::WRITE), access).map(Some),
            Op::Trim(_) if !self.offers(transmission::SEND_TRIM) => Ok(None),
            Op::Trim(access) => self.durable(plain(command::TRIM), access).map(Some),
            Op::Zero(how) => self.zero_order(plain(command::WRITE_ZEROES), how).map(Some),
        }
    }

    fn durable(&self, order: Order, access: Access) -> Result<Order> {
        match access {
            Access::Cached => Ok(order),
            Access::Fua if self.offers(transmission::SEND_FUA) => {
                Ok(Order { flags: order.flags | command_flag::FUA, ..order })
            }
            Access::Fua if self.offers(transmission::SEND_FLUSH) => Ok(Order { then_flush: true, ..order }),
            Access::Fua => {
                Err(Error::Unsupported(format!("durable writes to {}: it can neither FUA nor flush", self.uri)))
            }
        }
    }

    fn zero_order(&self, order: Order, how: Zeroing) -> Result<Order> {
        if how.fast && !self.offers(transmission::SEND_FAST_ZERO) {
            return Err(Error::Unsupported(format!("fast zeroes on {}", self.uri)));
        }
        let keep = if how.keep_space { command_flag::NO_HOLE } else { 0 };
        let fast = if how.fast { command_flag::FAST_ZERO } else { 0 };
        self.durable(Order { flags: keep | fast, ..order }, how.access)
    }

    /// Returns true if the client must send zeros as data.
    pub(super) fn writes_zeros(&self, op: Op) -> bool {
        matches!(op, Op::Zero(how) if !how.fast) && !self.offers(transmission::SEND_WRITE_ZEROES)
    }

    pub(super) fn write_zeros(&self, span: Span, access: Access) -> Result<()> {
        self.check(span)?;
        let zeros = vec![0; span.len.min(ZEROS_BYTES) as usize];
        let (mut at, end) = (span.at, span.at + span.len);
        while at < end {
            let step = (end - at).min(ZEROS_BYTES);
            self.write(at, &zeros[..step as usize], access)?;
            at += step;
        }
        Ok(())
    }
}
