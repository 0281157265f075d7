//! `escape` makes text that others have written safe for a terminal.

pub use store::error::plain::{line, lines};

/// `name      value`, one below the other.
pub fn fields(fields: &[(&str, String)]) -> String {
    fields.iter().map(|(name, value)| format!("{name:<9} {}\n", line(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_on_its_line() {
        assert_eq!(fields(&[("by", "a\nb".to_owned())]), "by        a\\nb\n");
    }
}
