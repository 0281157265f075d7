//! `pstore list --expiry`: when the first expected cookie of each profile lapses.

use capture::examiner::LOGGED_OUT;
use engine::{
    Engine,
    failure::Failure,
    text::{size, time},
    verbs::expect,
};
use serde_json::{Value, json};
use store::{
    catalog::{clock, records},
    name::{ProfileName, Tenant},
    ops::read::forecast::{self, Forecast},
};

use crate::{
    answer::Answer,
    table::{
        Align::{Left, Right},
        Table,
    },
};

const NOTHING: &str = "-";

pub(super) async fn run(
    engine: &Engine,
    tenant: &Tenant,
    profile: Option<&ProfileName>,
) -> Result<Answer, Failure> {
    let store = engine.tenant(tenant).await?;
    let names = match profile {
        Some(name) => {
            engine.require_profile(&store, name).await?;
            vec![name.clone()]
        }
        None => records::profiles(&store).await?,
    };
    let mut forecasts = forecast::forecast(&store, names).await?;
    // Those that need somebody soonest come first.
    forecasts.sort_by_key(|forecast| (!is_logged_out(forecast), first(forecast).unwrap_or(u64::MAX)));
    let document = json!({
        "tenant_id": tenant,
        "expiry": forecasts.iter().map(line).collect::<Vec<Value>>(),
    });
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
    forecasts.iter().for_each(|forecast| table.row(cells(forecast, now_ms)));
    Ok(Answer::new(document, table.render()))
}

fn first(forecast: &Forecast) -> Option<u64> {
    let (_, record) = forecast.current.as_ref()?;
    Some(record.health.as_ref()?.expected.as_ref()?.first_lapse()?.1)
}

fn is_logged_out(forecast: &Forecast) -> bool {
    forecast.current.as_ref().is_some_and(|(_, record)| expect::missing(record).is_some())
}

fn is_judged(forecast: &Forecast) -> bool {
    let health = forecast.current.as_ref().and_then(|(_, record)| record.health.as_ref());
    health.is_some_and(|health| health.expected.is_some())
}

fn line(forecast: &Forecast) -> Value {
    let current = forecast.current.as_ref();
    let (missing, first_lapse) = current.map_or_else(Default::default, |(_, record)| expect::found(record));
    json!({
        "profile_id": forecast.name.profile,
        "chrome_major_version": current.map(|(lineage, _)| lineage.chrome_major),
        "sha256_prefix": current.map(|(_, record)| record.sha256_prefix()),
        "captured_at_ms": current.map(|(_, record)| record.captured_at_ms),
        "expected": forecast.is_expected,
        "judged": is_judged(forecast),
        "missing": missing,
        "first_lapse": first_lapse,
    })
}

fn cells(forecast: &Forecast, now_ms: u64) -> Vec<String> {
    let nothing = || NOTHING.to_owned();
    let current = forecast.current.as_ref();
    let expected = current.and_then(|(_, record)| record.health.as_ref()?.expected.as_ref());
    let lapse = expected.and_then(|expected| expected.first_lapse());
    let missing = current.and_then(|(_, record)| expect::missing(record));
    let state = match (missing, is_judged(forecast), forecast.is_expected) {
        (Some(missing), ..) => format!("{LOGGED_OUT}: {missing}"),
        (None, _, false) => "nothing is expected".to_owned(),
        (None, false, true) => "not captured since something is expected".to_owned(),
        (None, true, true) => "all there".to_owned(),
    };
    vec![
        forecast.name.to_string(),
        current.map_or_else(nothing, |(lineage, _)| lineage.chrome_major.to_string()),
        current.map_or_else(nothing, |(_, record)| record.sha256_prefix()),
        lapse.map_or_else(nothing, |(_, at)| time::utc(at)),
        lapse.map_or_else(nothing, |(_, at)| until(at, now_ms)),
        lapse.map_or_else(nothing, |(cookie, _)| format!("{}:{}", cookie.host, cookie.name)),
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
