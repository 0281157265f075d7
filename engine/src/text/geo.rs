//! `geo` reads where a browser's requests come from, as the contract writes it down.

use store::format::record::Geo;

/// How it is written.
pub const FORM: &str = "a country's two letters, or with a region of it, as US or US/NY";

/// `US`, or `US/NY`.
pub fn parse(text: &str) -> Result<Geo, String> {
    let (country, region) = text.split_once('/').unwrap_or((text, ""));
    let is_country = country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_region = !region.chars().any(|c| c.is_control() || c == '/') && region.len() <= 64;
    if !is_country || !is_region || text.ends_with('/') {
        return Err(FORM.to_owned());
    }
    Ok(Geo { country: country.to_owned(), region: region.to_owned(), unknown: Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_country_and_perhaps_a_region() {
        let parsed = |text: &str| parse(text).map(|geo| (geo.country, geo.region));
        assert_eq!(parsed("US"), Ok(("US".to_owned(), String::new())));
        assert_eq!(parsed("US/NY"), Ok(("US".to_owned(), "NY".to_owned())));
        for wrong in ["", "us", "USA", "US/", "US/NY/Albany", "/NY", "US/N\nY"] {
            assert_eq!(parsed(wrong), Err(FORM.to_owned()), "{wrong:?}");
        }
    }
}
