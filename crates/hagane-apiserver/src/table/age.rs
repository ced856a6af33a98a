//! Spans of time as `kubectl get` shows them.

use jiff::Timestamp;
use serde_json::Value;

/// How long ago a time was; `<unknown>` without one.
pub(super) fn since(time: Option<&Value>, now: Timestamp) -> Value {
    match time {
        None | Some(Value::Null) => "<unknown>".into(),
        Some(time) => match time.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
            Some(time) => human(now.as_second() - time.as_second()).into(),
            None => "<invalid>".into(),
        },
    }
}

/// Seconds in the two largest units that still tell something.
fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let (years, minute, hour, day) = (days / 365, 60, 3600, 86400);
    let two = |whole: i64, unit: &str, rest: i64, small: &str| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        _ if seconds < 2 * minute => format!("{seconds}s"),
        _ if seconds < 10 * minute => two(minutes, "m", seconds % 60, "s"),
        _ if seconds < 3 * hour => format!("{minutes}m"),
        _ if seconds < 8 * hour => two(hours, "h", minutes % 60, "m"),
        _ if seconds < 2 * day => format!("{hours}h"),
        _ if seconds < 8 * day => two(days, "d", hours % 24, "h"),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn shows_what_people_are_used_to() {
        let (minute, hour, day) = (60, 3600, 86400);
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (5 * minute + 3, "5m3s"),
            (10 * minute + 3, "10m"),
            (179 * minute, "179m"),
            (3 * hour + 20 * minute, "3h20m"),
            (8 * hour + 20 * minute, "8h"),
            (47 * hour, "47h"),
            (3 * day + 4 * hour, "3d4h"),
            (2 * day, "2d"),
            (9 * day + 4 * hour, "9d"),
            (700 * day, "700d"),
            (2 * 365 * day + 30 * day, "2y30d"),
            (9 * 365 * day, "9y"),
        ];
        for (seconds, wanted) in cases {
            assert_eq!(human(seconds), wanted, "{seconds}");
        }
    }
}
