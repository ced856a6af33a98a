//! Formats of texts. Formats that are not known here are not checked.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a text has the format it must have.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "mac" => is_mac(text),
        "byte" => is_base64(text),
        _ => true,
    }
}

/// Whether an integer fits the format.
pub(super) fn fits(format: &str, number: &serde_json::Number) -> bool {
    match (format, number.as_i64(), number.as_f64()) {
        ("int32", Some(whole), _) => i32::try_from(whole).is_ok(),
        ("int32", None, Some(real)) => real.abs() <= f64::from(i32::MAX),
        ("int64", None, Some(real)) => real.abs() < 9.3e18,
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    // RFC 3339 wants the separator and a zone; the parser alone is more generous.
    let bytes = text.as_bytes();
    bytes.get(10).is_some_and(|at| matches!(at, b'T' | b't'))
        && text.get(11..).is_some_and(|time| time.contains(['Z', 'z', '+', '-']))
        && !text.contains('[')
        && text.parse::<jiff::Timestamp>().is_ok()
}

/// Durations as Go writes them, `1h30m` or `2.5s`, and as ISO 8601 writes them.
fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text == "0" || (text.starts_with('P') && text.parse::<jiff::Span>().is_ok()) {
        return true;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        if number.parse::<f64>().is_err() {
            return false;
        }
        let tail = tail.trim_start();
        let end = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if !matches!(unit.trim_end(), "ns" | "us" | "µs" | "ms" | "s" | "m" | "h" | "d" | "w") {
            return false;
        }
        rest = tail;
    }
    !text.is_empty()
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let plain: String = text.chars().filter(|letter| *letter != '-').collect();
    let shape = text.len() == plain.len() || text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    shape
        && plain.len() == 32
        && plain.chars().all(|letter| letter.is_ascii_hexdigit())
        && version.is_none_or(|wanted| plain.chars().nth(12) == Some(wanted))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let longest = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.chars().all(|letter| letter.is_ascii_digit()) && length.parse::<u8>().is_ok_and(|length| length <= longest)
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return text.starts_with('/') };
    let mut letters = scheme.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
        && !rest.is_empty()
        && !text.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

fn is_email(text: &str) -> bool {
    text.rsplit_once('@')
        .is_some_and(|(local, domain)| !local.is_empty() && !local.contains(char::is_whitespace) && is_hostname(domain))
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 255 && text.trim_end_matches('.').split('.').all(label)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let octets: Vec<&str> = text.split(separator).collect();
    matches!(octets.len(), 6 | 8)
        && octets.iter().all(|octet| octet.len() == 2 && octet.chars().all(|letter| letter.is_ascii_hexdigit()))
}

fn is_base64(text: &str) -> bool {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text.replace(['\r', '\n'], "")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn tells_right_from_wrong() {
        let cases = [
            ("date-time", "2026-11-30T10:00:00Z", "2026-11-30 10:00:00"),
            ("date-time", "2026-11-30T10:00:00.123456+02:00", "yesterday"),
            ("date", "2026-11-30", "2026-13-30"),
            ("duration", "1h30m", "1 year"),
            ("duration", "2.5s", ""),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4"),
            ("uuid4", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "fe80::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("uri", "https://example.com/x", "not a uri"),
            ("email", "a@example.com", "example.com"),
            ("hostname", "node-1.example.com", "-node"),
            ("mac", "52:54:00:12:34:56", "52:54:00:12:34"),
            ("byte", "aGFnYW5l", "hagane!"),
        ];
        for (format, right, wrong) in cases {
            assert!(matches(format, right), "{format} {right}");
            assert!(!matches(format, wrong), "{format} {wrong}");
        }
        assert!(matches("unheard-of", "anything"));
    }
}
