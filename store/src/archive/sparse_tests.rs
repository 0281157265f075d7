//! These tests read the maps of sparse files in every form, valid and invalid.

use super::*;

fn runs(size: u64, parts: &[StreamPart]) -> Result<(Vec<Run>, Holes)> {
    let stored = parts.iter().map(|(_, len)| len).sum();
    let (mut runs, holes) = Runs::sparse(size, parts, stored)?;
    let mut all = Vec::new();
    while let Some(run) = runs.next() {
        all.push(std::mem::take(run));
    }
    Ok((all, holes))
}

fn run(zeros: u64, data: u64) -> Run {
    Run { zeros, data }
}

#[test]
fn what_is_between_the_parts_is_a_hole() {
    assert_eq!(
        runs(9, &[(2, 3), (7, 1)]).unwrap(),
        (vec![run(2, 3), run(2, 1), run(1, 0)], vec![(0, 2), (5, 2), (8, 1)])
    );
    // Parts that touch have none between them, and empty ones are none.
    assert_eq!(runs(9, &[(0, 4), (4, 5), (9, 0)]).unwrap(), (vec![run(0, 4), run(0, 5)], vec![]));
    assert_eq!(runs(9, &[(3, 0), (9, 0)]).unwrap(), (vec![run(9, 0)], vec![(0, 9)]));
    assert_eq!(runs(0, &[]).unwrap(), (vec![], vec![]));
}

#[test]
fn maps_that_fit_no_file_are_refused() {
    for (size, parts) in [
        (9, &[(2, 3), (4, 1)][..]),
        (9, &[(5, 1), (2, 1)]),
        (9, &[(2, 8)]),
        (9, &[(9, 1)]),
        (9, &[(u64::MAX, 2)]),
        (9, &[(1, u64::MAX)]),
        (u64::MAX, &[(0, u64::MAX), (1, u64::MAX)]),
    ] {
        let stored = parts.iter().fold(0_u64, |sum, (_, len)| sum.wrapping_add(*len));
        assert!(matches!(Runs::sparse(size, parts, stored), Err(Problem::Bad(_))), "{parts:?}");
    }
    assert!(matches!(Runs::sparse(9, &[(2, 3)], 4), Err(Problem::Bad(_))));
}

#[test]
fn a_file_of_very_many_holes_is_one_without() {
    let parts = |count: u64| (0..count).map(|at| (2 * at + 1, 1)).collect::<Vec<StreamPart>>();
    let most = MAX_HOLES as u64;
    assert_eq!(runs(2 * most, &parts(most)).unwrap().1.len(), MAX_HOLES);
    let (all, holes) = runs(2 * most + 2, &parts(most + 1)).unwrap();
    assert_eq!((all.len(), holes), (MAX_HOLES + 1, vec![]));
}

#[test]
fn a_map_before_the_content_takes_whole_blocks() {
    let mut map = b"2\n0\n5\n1000\n7\n".to_vec();
    map.resize(BLOCK_LEN, 0);
    let told = || SparseRecords { version: (1, 0), size: Some(2000), ..SparseRecords::default() };
    let content = [map.clone(), b"content".to_vec()].concat();
    let mut left = content.as_slice();
    assert_eq!(told().read_on(&mut left).unwrap(), (2000, vec![(0, 5), (1000, 7)]));
    assert_eq!(left, b"content");
    let long = format!("9999999999999{}", "9".repeat(1000));
    for bad in ["", "\n", "1\n5\n", "x\n", "1\n-1\n5\n", "1048577\n", "99999999999999999999\n", &long] {
        let mut block = bad.as_bytes().to_vec();
        block.resize(block.len().next_multiple_of(BLOCK_LEN), 0);
        assert!(matches!(told().read_on(&mut block.as_slice()), Err(Problem::Bad(_))), "{bad:?}");
    }
    assert!(matches!(told().read_on(&mut &map[..100]), Err(Problem::Bad(_))));
}

#[test]
fn records_tell_a_map_one_by_one_or_at_once() {
    let told = |records: &[(&str, &str)]| {
        let mut told = SparseRecords::default();
        let set = |(name, value): &(&str, &str)| told.set(name.as_bytes(), value.as_bytes());
        records.iter().try_for_each(set).map(|()| told)
    };
    let expected = (2000, vec![(0, 5), (1000, 7)]);
    let one_by_one = [
        ("size", "2000"),
        ("numblocks", "2"),
        ("offset", "0"),
        ("numbytes", "5"),
        ("offset", "1000"),
        ("numbytes", "7"),
    ];
    for records in [&one_by_one[..], &[("size", "2000"), ("numblocks", "2"), ("map", "0,5,1000,7")]] {
        assert_eq!(told(records).unwrap().read_on(&mut &b""[..]).unwrap(), expected);
    }
    for records in [
        &[("offset", "0"), ("offset", "1")][..],
        &[("numbytes", "0")],
        &[("map", "1,")],
        &[("map", "1,x")],
        &[("size", "")],
        &[("other", "1")],
    ] {
        assert_eq!(told(records), None, "{records:?}");
    }
    for records in [
        &[("map", "0,5")][..],
        &[("size", "9"), ("map", "0,5,6")],
        &[("size", "9"), ("offset", "0")],
        &[("size", "9"), ("numblocks", "2"), ("map", "0,5")],
        &[("size", "9"), ("major", "2")],
        &[("size", "9"), ("major", "1"), ("minor", "1")],
    ] {
        assert!(matches!(told(records).unwrap().read_on(&mut &b""[..]), Err(Problem::Bad(_))), "{records:?}");
    }
}
