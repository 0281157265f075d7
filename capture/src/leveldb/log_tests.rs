//! These tests read logs that are whole, cut short and damaged.

use proptest::prelude::*;

use super::*;
use crate::leveldb::writer;

fn lengths(file: &[u8]) -> (Vec<u64>, End) {
    let mut lengths = Vec::new();
    let end = read(file, 5, Deadline::NEVER, |record| {
        assert!(record.prefix.len() as u64 == record.bytes.min(5));
        lengths.push(record.bytes);
    });
    (lengths, end.unwrap())
}

/// A record that leaves exactly `left` bytes of the first block.
fn leaving(left: usize) -> Vec<u8> {
    writer::batch(BLOCK_BYTES - 7 - left)
}

#[test]
fn records_of_all_sizes_are_read_back() {
    for left in [0, 1, 6, 7, 8, 100] {
        let records = [leaving(left), writer::batch(12), writer::batch(100_000), writer::batch(30)];
        let expected: Vec<_> = records.iter().map(|record| record.len() as u64).collect();
        assert_eq!(lengths(&writer::log(&records)), (expected, End::Whole), "{left} bytes left");
    }
    assert_eq!(lengths(b""), (vec![], End::Whole));
}

#[test]
fn a_log_cut_anywhere_is_torn_and_keeps_the_records_before() {
    let first = writer::log(&[writer::batch(40_000)]).len();
    let file = writer::log(&[writer::batch(40_000), writer::batch(20), writer::batch(30_000)]);
    for cut in (0..file.len()).step_by(97).chain(first - 8..first + 40).chain(32_760..32_780) {
        let (records, end) = lengths(&file[..cut]);
        match end {
            End::Torn { bytes } => assert!(bytes > 0 && bytes <= cut as u64),
            // Between two records, or in the padding before a block's end.
            End::Whole => assert!(cut == 0 || !records.is_empty()),
            other => panic!("cut at {cut}: {other:?}"),
        }
        assert_eq!(records.is_empty(), cut < first);
    }
}

#[test]
fn zeros_at_the_end_are_torn_and_elsewhere_damage() {
    let mut file = writer::log(&[writer::batch(50)]);
    let whole = file.len() as u64;
    file.resize(100_000, 0);
    assert_eq!(lengths(&file), (vec![50], End::Torn { bytes: 100_000 - whole }));
    file.extend(writer::log(&[writer::batch(50)]));
    assert!(matches!(lengths(&file).1, End::Damaged { .. }));
}

#[test]
fn a_length_that_hides_whole_records_is_damage() {
    let mut file = writer::log(&[writer::batch(50), writer::batch(60), writer::batch(70)]);
    file[57 + 5] = 0x7f;
    assert!(matches!(lengths(&file).1, End::Damaged { offset: 57, .. }));
}

#[test]
fn a_torn_record_may_hold_what_looks_like_an_empty_one() {
    let mut held = vec![1; 20];
    writer::physical(&mut held, FULL, b"");
    held.extend([1; 20]);
    let mut file = writer::log(&[writer::batch(50)]);
    let whole = file.len();
    writer::physical(&mut file, FULL, &held);
    file.truncate(file.len() - 1);
    assert_eq!(lengths(&file), (vec![50], End::Torn { bytes: (file.len() - whole) as u64 }));
}

#[test]
fn pieces_out_of_order_are_damage() {
    for kinds in [&[3][..], &[4], &[2, 1], &[2, 2], &[1, 4], &[9], &[2, 3, 1]] {
        let mut file = Vec::new();
        kinds.iter().for_each(|kind| writer::physical(&mut file, *kind, b"payload"));
        assert!(matches!(lengths(&file).1, End::Damaged { .. }), "{kinds:?}");
    }
    let mut file = Vec::new();
    writer::physical(&mut file, 2, b"");
    writer::physical(&mut file, 1, b"payload");
    assert_eq!(lengths(&file), (vec![7], End::Whole), "old writers did so");
}

#[test]
fn time_may_run_out() {
    let file = writer::log(&[writer::batch(50)]);
    let end = read(&file[..], 0, Deadline::after(std::time::Duration::ZERO), |_| {}).unwrap();
    assert_eq!(end, End::OutOfTime);
}

proptest! {
    #[test]
    fn any_bytes_are_a_log_or_are_refused(file in proptest::collection::vec(any::<u8>(), 0..2000)) {
        lengths(&file);
    }

    #[test]
    fn no_changed_byte_goes_unnoticed(at in 0_usize..33_000, change in 1_u8..) {
        let records = [writer::batch(32_000), writer::batch(400), writer::batch(500)];
        let mut file = writer::log(&records);
        let at = at % file.len();
        file[at] ^= change;
        let (found, end) = lengths(&file);
        prop_assert!(end != End::Whole && found.len() < records.len());
    }
}
