//! `Choices` decides where a run goes: along a given path and then straight on, or at random.

/// The choices of one run.
#[derive(Debug)]
pub struct Choices {
    prefix: Vec<usize>,
    lot: Option<u64>,
    /// The choice, and the number of options.
    taken: Vec<(usize, usize)>,
}

impl Choices {
    pub fn along(prefix: Vec<usize>) -> Self {
        Self { prefix, lot: None, taken: Vec::new() }
    }

    pub fn by_lot(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike.
        let mut lot = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for _ in 0..8 {
            draw(&mut lot);
        }
        Self { prefix: Vec::new(), lot: Some(lot), taken: Vec::new() }
    }

    /// One of the options, whose weights these are.
    pub fn choose(&mut self, weights: &[u32]) -> usize {
        let chosen = match (self.prefix.get(self.taken.len()), &mut self.lot) {
            (Some(chosen), _) => (*chosen).min(weights.len() - 1),
            (None, Some(lot)) => by_weight(lot, weights),
            (None, None) => 0,
        };
        self.taken.push((chosen, weights.len()));
        chosen
    }

    /// Whether the run is still where another has been.
    pub fn is_replaying(&self) -> bool {
        self.taken.len() < self.prefix.len()
    }

    pub fn chosen(&self) -> Vec<usize> {
        self.taken.iter().map(|(chosen, _)| *chosen).collect()
    }

    /// The path to the next run: the last choice that has something left.
    pub fn next(mut self) -> Option<Vec<usize>> {
        while let Some((chosen, of)) = self.taken.pop() {
            if chosen + 1 < of {
                let mut path = self.chosen();
                path.push(chosen + 1);
                return Some(path);
            }
        }
        None
    }
}

fn draw(lot: &mut u64) -> u64 {
    *lot ^= *lot << 13;
    *lot ^= *lot >> 7;
    *lot ^= *lot << 17;
    *lot
}

fn by_weight(lot: &mut u64, weights: &[u32]) -> usize {
    let all: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let mut left = draw(lot) % all.max(1);
    for (option, weight) in weights.iter().enumerate() {
        match left.checked_sub(u64::from(*weight)) {
            Some(rest) => left = rest,
            None => return option,
        }
    }
    0
}
