//! `expiry` prints when the first expected cookie of each profile lapses, for `pstore list --expiry`.

use capture::examiner::LOGGED_OUT;
use engine::{
    text::{size, time},
    verbs::list::{ExpiryList, ExpiryRow},
};
use store::{
    catalog::clock,
    name::{ProfileName, Tenant},
};

use crate::table::{
    Align::{Left, Right},
    Table,
};

const NOTHING: &str = "-";

pub(super) fn table(list: &ExpiryList) -> String {
    let heading = [
        ("PROFILE", Left),
        ("CHROME", Right),
        ("SNAPSHOT", Left),
        ("FIRST LAPSES (UTC)", Left),
        ("IN", Left),
        ("COOKIE", Left),
        ("STATE", Left),
    ];
    let mut table = Table::new(&heading);
    let now_ms = clock::unix_ms();
    list.expiry.iter().for_each(|row| table.row(cells(&list.tenant_id, row, now_ms)));
    table.render()
}

fn cells(tenant: &Tenant, row: &ExpiryRow, now_ms: u64) -> Vec<String> {
    let nothing = || NOTHING.to_owned();
    let lapse = row.expectation.first_lapse.as_ref();
    let state = match (row.expectation.missing_names(), row.judged, row.expected) {
        (Some(missing), ..) => format!("{LOGGED_OUT}: {missing}"),
        (None, _, false) => "nothing is expected".to_owned(),
        (None, false, true) => "not captured since something is expected".to_owned(),
        (None, true, true) => "all there".to_owned(),
    };
    vec![
        ProfileName { tenant: tenant.clone(), profile: row.profile_id.clone() }.to_string(),
        row.chrome_major_version.map_or_else(nothing, |major| major.to_string()),
        row.sha256_prefix.clone().unwrap_or_else(nothing),
        lapse.map_or_else(nothing, |lapse| time::utc(lapse.lapses_at_ms)),
        lapse.map_or_else(nothing, |lapse| until(lapse.lapses_at_ms, now_ms)),
        lapse.map_or_else(nothing, |lapse| format!("{}:{}", lapse.host, lapse.name)),
        state,
    ]
}

/// How long it is until then, in the largest unit of which there is one.
fn until(at_ms: u64, now_ms: u64) -> String {
    let Some(left) = at_ms.checked_sub(now_ms) else { return "lapsed".to_owned() };
    let minutes = left / 60_000;
    match (minutes / 1440, minutes / 60) {
        (0, 0) => size::plural(minutes, "minute", "minutes"),
        (0, hours) => size::plural(hours, "hour", "hours"),
        (days, _) => size::plural(days, "day", "days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_in_one_unit() {
        assert_eq!(until(59_000, 60_000), "lapsed");
        assert_eq!(until(180_000, 60_000), "2 minutes");
        assert_eq!(until(60_000 * 61, 0), "1 hour");
        assert_eq!(until(86_400_000 * 3 + 5, 0), "3 days");
    }
}
