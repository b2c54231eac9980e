//! The counts of a log, as the owner of the pool reports them.

use ferrite_owner::services::PoolRequest;
use ferrite_owner::{Metric, OwnerClient, ServiceRequest};

use super::given_back::Place;
use super::*;

/// Returns the samples of the metric `name`, by operation.
fn counted(place: &Place, name: &str) -> Vec<(String, f64)> {
    let mut client = OwnerClient::connect(place.log_pool.path()).unwrap();
    let answer = client.call(ServiceRequest::of(&PoolRequest::Metrics), &mut |_| true).unwrap().0;
    let metrics: Vec<Metric> = serde_json::from_value(answer).unwrap();
    let metric = metrics.into_iter().find(|metric| metric.name == name).unwrap();
    let samples = metric.samples.into_iter().filter(|sample| sample.labels["database"] == place.database());
    samples.map(|sample| (sample.labels["op"].clone(), sample.value.number().unwrap())).collect()
}

#[test]
fn the_owner_reports_the_operations_of_the_processes_that_have_a_log() {
    let place = Place::new();
    assert_eq!(counted(&place, "database_requests_total"), []);
    let (log, other) = (place.log(), place.log());
    log.create(JournalFile::Wal).unwrap();
    let mut page = [7; 4096];
    // The log gets more space, and so another grant: its counts go on.
    (0..200).for_each(|number| log.write(JournalFile::Wal, number * 4096, &page).unwrap());
    log.persist().unwrap();
    other.read(JournalFile::Wal, 0, &mut page).unwrap();
    assert_eq!(other.read(JournalFile::Wal, 199 * 4096, &mut [0; 8192]).unwrap(), 4096);
    let named = |counts: [(&str, f64); 4]| counts.map(|(op, count)| (op.to_owned(), count));
    let requests = named([("read", 2.0), ("write", 200.0), ("sync", 1.0), ("names", 1.0)]);
    assert_eq!(counted(&place, "database_requests_total"), requests);
    let bytes = named([("read", 8192.0), ("write", 819_200.0), ("sync", 0.0), ("names", 0.0)]);
    assert_eq!(counted(&place, "database_bytes_total"), bytes);
    drop((log, other));
    assert_eq!(counted(&place, "database_requests_total"), requests, "the counts outlive the processes");
}
