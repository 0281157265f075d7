//! `lines` compares two texts line by line and writes a unified diff.

use std::fmt::Write;

/// So many steps are tried to find the smallest diff; a text that differs more is told as replaced.
const MOST_STEPS: usize = 1000;

/// One line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    Same(usize, usize),
    Removed(usize),
    Added(usize),
}

/// A unified diff, and how many lines it adds and removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unified {
    pub text: String,
    pub added: u64,
    pub removed: u64,
}

/// Whether bytes are a text that people read.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// How `after` differs from `before`; the text is empty if it does not.
pub(crate) fn unified(before: &str, after: &str, names: (&str, &str), context: usize) -> Unified {
    let (old, new) = (split(before), split(after));
    let edits = edits(&old, &new);
    let mut diff = Unified::default();
    for edit in &edits {
        match edit {
            Edit::Added(_) => diff.added += 1,
            Edit::Removed(_) => diff.removed += 1,
            Edit::Same(..) => {}
        }
    }
    if diff.added + diff.removed == 0 {
        return diff;
    }
    let _ = write!(diff.text, "--- {}\n+++ {}\n", names.0, names.1);
    for (from, to) in hunks(&edits, context) {
        write_hunk(&mut diff.text, &edits[from..to], &edits[..from], (&old, &new));
    }
    diff
}

fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Where hunks begin and end: changes that are near each other are one.
fn hunks(edits: &[Edit], context: usize) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        if matches!(edit, Edit::Same(..)) {
            continue;
        }
        let (from, to) = (at.saturating_sub(context), (at + 1 + context).min(edits.len()));
        match hunks.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => hunks.push((from, to)),
        }
    }
    hunks
}

fn write_hunk(text: &mut String, hunk: &[Edit], before: &[Edit], (old, new): (&[&str], &[&str])) {
    let count = |edits: &[Edit]| {
        edits.iter().fold((0, 0), |(old, new), edit| match edit {
            Edit::Same(..) => (old + 1, new + 1),
            Edit::Removed(_) => (old + 1, new),
            Edit::Added(_) => (old, new + 1),
        })
    };
    let ((from_old, from_new), (lines_old, lines_new)) = (count(before), count(hunk));
    // A range of no lines is named by the line before it.
    let start = |from: usize, lines: usize| if lines == 0 { from } else { from + 1 };
    let _ = writeln!(
        text,
        "@@ -{},{lines_old} +{},{lines_new} @@",
        start(from_old, lines_old),
        start(from_new, lines_new)
    );
    for edit in hunk {
        let (sign, line) = match edit {
            Edit::Same(at, _) => (' ', old[*at]),
            Edit::Removed(at) => ('-', old[*at]),
            Edit::Added(at) => ('+', new[*at]),
        };
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// The shortest way from one to the other that keeps what both begin and end with.
fn edits(old: &[&str], new: &[&str]) -> Vec<Edit> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (rest_old, rest_new) = (&old[head..], &new[head..]);
    let tail = rest_old.iter().rev().zip(rest_new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_old, middle_new) = (&rest_old[..rest_old.len() - tail], &rest_new[..rest_new.len() - tail]);
    let mut edits: Vec<Edit> = (0..head).map(|at| Edit::Same(at, at)).collect();
    edits.extend(shortest(middle_old, middle_new).into_iter().map(|edit| match edit {
        Edit::Same(a, b) => Edit::Same(a + head, b + head),
        Edit::Removed(a) => Edit::Removed(a + head),
        Edit::Added(b) => Edit::Added(b + head),
    }));
    let (end_old, end_new) = (old.len() - tail, new.len() - tail);
    edits.extend((0..tail).map(|at| Edit::Same(end_old + at, end_new + at)));
    edits
}

/// Myers' greedy search. `reached[k]` is how far it is in the old text on the diagonal `k`.
fn shortest(old: &[&str], new: &[&str]) -> Vec<Edit> {
    let (n, m) = (old.len() as isize, new.len() as isize);
    let most = (n + m).min(MOST_STEPS as isize);
    let at = |k: isize| (k + most + 1) as usize;
    let mut reached = vec![0isize; 2 * (most + 1) as usize + 1];
    let mut trace = Vec::new();
    for d in 0..=most {
        trace.push(reached[at(-d)..=at(d)].to_vec());
        for k in (-d..=d).step_by(2) {
            let down = k == -d || k != d && reached[at(k - 1)] < reached[at(k + 1)];
            let mut x = if down { reached[at(k + 1)] } else { reached[at(k - 1)] + 1 };
            while x < n && x - k < m && x - k >= 0 && old[x as usize] == new[(x - k) as usize] {
                x += 1;
            }
            reached[at(k)] = x;
            if x >= n && x - k >= m {
                return back(&trace, (n, m));
            }
        }
    }
    let removed = (0..old.len()).map(Edit::Removed);
    removed.chain((0..new.len()).map(Edit::Added)).collect()
}

/// Goes the way back that the search has found.
fn back(trace: &[Vec<isize>], (n, m): (isize, isize)) -> Vec<Edit> {
    let (mut x, mut y, mut edits) = (n, m, Vec::new());
    for d in (0..trace.len() as isize).rev() {
        let (k, reached) = (x - y, &trace[d as usize]);
        let at = |k: isize| reached.get((k + d) as usize).copied().unwrap_or(0);
        let down = k == -d || k != d && at(k - 1) < at(k + 1);
        let from_k = if down { k + 1 } else { k - 1 };
        let (from_x, from_y) = if d == 0 { (0, 0) } else { (at(from_k), at(from_k) - from_k) };
        while x > from_x && y > from_y && x > 0 && y > 0 && (d == 0 || (x, y) != step(from_x, from_y, down)) {
            (x, y) = (x - 1, y - 1);
            edits.push(Edit::Same(x as usize, y as usize));
        }
        if d > 0 {
            match down {
                true => edits.push(Edit::Added(from_y as usize)),
                false => edits.push(Edit::Removed(from_x as usize)),
            }
            (x, y) = (from_x, from_y);
        }
    }
    edits.reverse();
    edits
}

/// Where one line leads to.
fn step(x: isize, y: isize, down: bool) -> (isize, isize) {
    if down { (x, y + 1) } else { (x + 1, y) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_what_people_know() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nB\nc\nd\ne\nf\ng\nh\ni";
        let diff = unified(before, after, ("x (cp-1)", "x"), 1);
        assert_eq!((diff.added, diff.removed), (2, 1));
        assert_eq!(
            diff.text,
            "--- x (cp-1)\n+++ x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -8,1 +8,2 @@\n h\n+i\n\\ No newline at end of file\n"
        );
        assert_eq!(unified(before, before, ("x", "x"), 3), Unified::default());
        let made = unified("", "one\n", ("x", "x"), 3);
        assert_eq!(made.text, "--- x\n+++ x\n@@ -0,0 +1,1 @@\n+one\n");
    }

    /// Applying the edits to the old text gives the new one, whatever they are.
    #[test]
    fn edits_lead_from_one_text_to_the_other() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..500 {
            let lines = ["a\n", "b\n", "c\n"];
            let mut made = |most| {
                let count = random(most);
                (0..count).map(|_| lines[random(3) as usize]).collect::<Vec<_>>()
            };
            let (old, new) = (made(12), made(12));
            let (mut rebuilt, mut taken) = (Vec::new(), 0);
            for edit in edits(&old, &new) {
                match edit {
                    Edit::Same(a, b) => {
                        assert_eq!((a, b, old[a]), (taken, rebuilt.len(), new[b]));
                        rebuilt.push(old[a]);
                        taken += 1;
                    }
                    Edit::Removed(a) => {
                        assert_eq!(a, taken);
                        taken += 1;
                    }
                    Edit::Added(b) => {
                        assert_eq!(b, rebuilt.len());
                        rebuilt.push(new[b]);
                    }
                }
            }
            assert_eq!((rebuilt, taken), (new.clone(), old.len()), "{old:?} {new:?}");
        }
    }
}
