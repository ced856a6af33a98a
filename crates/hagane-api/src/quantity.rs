//! Amounts of memory, disk and CPU as types, and the Kubernetes notation for them.
//!
//! Grammar of a quantity: an optional sign, a decimal number, and one of the suffixes `n u m k M G T P E` (powers of
//! 1000), `Ki Mi Gi Ti Pi Ei` (powers of 1024) or a decimal exponent `e3`. Source: the Kubernetes API reference.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// Memory in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemoryMib(pub u64);

/// CPUs in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MilliCpus(pub u64);

impl ByteSize {
    /// From whole GiB, or nothing where it does not fit.
    #[must_use]
    pub fn from_gib(gib: u64) -> Option<Self> {
        gib.checked_mul(GIB).map(Self)
    }

    /// As a quantity that is read back as exactly this size: `4Gi`, `4097Mi`, `4294967297`.
    #[must_use]
    pub fn quantity(self) -> String {
        let units = [(GIB, "Gi"), (MIB, "Mi"), (1 << 10, "Ki")];
        match units.iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => format!("{}{name}", self.0 / unit),
            None => self.0.to_string(),
        }
    }
}

impl MemoryMib {
    /// In bytes; the largest number where it does not fit.
    #[must_use]
    pub fn bytes(self) -> ByteSize {
        ByteSize(self.0.saturating_mul(MIB))
    }
}

impl MilliCpus {
    /// From whole CPUs.
    #[must_use]
    pub fn from_cpus(cpus: u32) -> Self {
        Self(u64::from(cpus) * 1000)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")] {
            if self.0 >= unit {
                let tenths = u128::from(self.0) * 10 / u128::from(unit);
                let (whole, tenth) = (tenths / 10, tenths % 10);
                return if tenth == 0 {
                    write!(formatter, "{whole} {name}")
                } else {
                    write!(formatter, "{whole}.{tenth} {name}")
                };
            }
        }
        write!(formatter, "{} B", self.0)
    }
}

impl fmt::Display for MemoryMib {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} MiB", self.0)
    }
}

impl fmt::Display for MilliCpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) {
            write!(formatter, "{}", self.0 / 1000)
        } else {
            write!(formatter, "{}m", self.0)
        }
    }
}

/// Why a text is no quantity of the wanted sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityProblem {
    /// Not in the grammar.
    #[error("must be a quantity such as 4, 500m, 8Gi or 4G")]
    Syntax,
    /// Below zero.
    #[error("must not be negative")]
    Negative,
    /// More than any machine has.
    #[error("is too large: at most 2^63-1 base units")]
    TooLarge,
}

/// Parses a quantity and returns it in thousandths of its base unit, rounded up.
fn parse_milli(text: &str) -> Result<u128, QuantityProblem> {
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'+') => (false, &text[1..]),
        Some(b'-') => (true, &text[1..]),
        _ => (false, text),
    };
    let number_end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(QuantityProblem::Syntax);
    }
    let scale = scale_of(suffix)?;
    let value = scaled(whole, fraction, scale)?;
    if negative && value > 0 {
        return Err(QuantityProblem::Negative);
    }
    if value > u128::from(u64::MAX >> 1) * 1000 {
        return Err(QuantityProblem::TooLarge);
    }
    Ok(value)
}

/// A multiplier: `factor * 10^exponent`.
#[derive(Clone, Copy)]
struct Scale {
    factor: u128,
    exponent: i32,
}

fn scale_of(suffix: &str) -> Result<Scale, QuantityProblem> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, i32); 10] =
        [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
    if let Some(position) = BINARY.iter().position(|name| *name == suffix) {
        return Ok(Scale { factor: 1 << (10 * (position + 1)), exponent: 0 });
    }
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok(Scale { factor: 1, exponent: *exponent });
    }
    let digits = suffix.strip_prefix(['e', 'E']).ok_or(QuantityProblem::Syntax)?;
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityProblem::Syntax);
    }
    // An exponent beyond i32 is beyond every limit as well; the sign says which one.
    let beyond = if digits.starts_with('-') { -1000 } else { 1000 };
    Ok(Scale { factor: 1, exponent: digits.parse().unwrap_or(beyond) })
}

/// `whole.fraction * scale`, in thousandths, rounded up.
fn scaled(whole: &str, fraction: &str, scale: Scale) -> Result<u128, QuantityProblem> {
    const DIGITS_MAX: usize = 30;
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.is_empty() {
        return Ok(0);
    }
    if whole.len() > DIGITS_MAX {
        return Err(QuantityProblem::TooLarge);
    }
    let (kept, cut) = fraction.split_at(fraction.len().min(DIGITS_MAX.saturating_sub(whole.len())));
    let digits: u128 = format!("{whole}{kept}").parse().map_err(|_| QuantityProblem::TooLarge)?;
    let exponent = scale.exponent + 3 - i32::try_from(kept.len()).map_err(|_| QuantityProblem::TooLarge)?;
    let value = digits.checked_mul(scale.factor).ok_or(QuantityProblem::TooLarge)?;
    let round_up = u128::from(!cut.is_empty());
    if exponent >= 0 {
        let power = u32::try_from(exponent).ok().and_then(|power| 10_u128.checked_pow(power));
        let power = power.ok_or(QuantityProblem::TooLarge)?;
        return value.checked_mul(power).and_then(|value| value.checked_add(round_up)).ok_or(QuantityProblem::TooLarge);
    }
    match 10_u128.checked_pow(exponent.unsigned_abs()) {
        Some(power) => Ok(value.div_ceil(power).max(1)),
        None => Ok(1),
    }
}

impl FromStr for ByteSize {
    type Err = QuantityProblem;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::try_from(parse_milli(text)?.div_ceil(1000)).map(Self).map_err(|_| QuantityProblem::TooLarge)
    }
}

impl FromStr for MilliCpus {
    type Err = QuantityProblem;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::try_from(parse_milli(text)?).map(Self).map_err(|_| QuantityProblem::TooLarge)
    }
}

/// A quantity as users write it: a number or a text. Kept as written; parsed when it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A whole number.
    Integer(i64),
    /// Kubernetes notation.
    Text(String),
}

impl Quantity {
    /// As bytes.
    ///
    /// # Errors
    /// The problem, where it is no amount of bytes.
    pub fn bytes(&self) -> Result<ByteSize, QuantityProblem> {
        self.text().parse()
    }

    /// As CPUs.
    ///
    /// # Errors
    /// The problem, where it is no number of CPUs.
    pub fn cpus(&self) -> Result<MilliCpus, QuantityProblem> {
        self.text().parse()
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Integer(number) => Cow::Owned(number.to_string()),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// Takes whole numbers of any size, so that one that is too large is told where it stands.
struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number, or a text such as \"8Gi\"")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::Integer(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(i64::try_from(number).map_or_else(|_| Quantity::Text(number.to_string()), Quantity::Integer))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Quantity, E> {
        if number.fract() == 0.0 {
            Ok(Quantity::Text(format!("{number:e}")))
        } else {
            Err(E::invalid_type(serde::de::Unexpected::Float(number), &self))
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity::Text(text.to_owned()))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text())
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_is_written_so_that_it_reads_back_exactly() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1 << 10, "1Ki"),
            (4097 * MIB, "4097Mi"),
            (4 * GIB, "4Gi"),
            (4 * GIB + 1, "4294967297"),
        ] {
            assert_eq!(ByteSize(bytes).quantity(), text);
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn reads_memory_as_people_write_it() {
        for (text, bytes) in [
            ("4096Mi", 4 * GIB),
            ("4Gi", 4 * GIB),
            ("4194304Ki", 4 * GIB),
            ("4294967296", 4 * GIB),
            ("4G", 4_000_000_000),
            ("4e9", 4_000_000_000),
            ("4E9", 4_000_000_000),
            ("4000000k", 4_000_000_000),
            ("4.0Gi", 4 * GIB),
            ("+4Gi", 4 * GIB),
            (".5Gi", GIB / 2),
            ("4.5Gi", 4 * GIB + GIB / 2),
            ("0", 0),
            ("1m", 1),
            ("1e-3", 1),
            ("0.0000000000000000000000000000000000000000001", 1),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_quantity() {
        for text in ["4GB", "4gi", "4000000K", "four", "1Gi2", "4 Gi", "1e", "", ".", "1.2.3", "e3", "+", "1e+", "Gi"] {
            assert_eq!(text.parse::<ByteSize>(), Err(QuantityProblem::Syntax), "{text}");
        }
        assert_eq!("-1Gi".parse::<ByteSize>(), Err(QuantityProblem::Negative));
        for text in ["99999999999999999999Ei", "1e99", "99999999999999999999999999999999999999", "1e99999999999"] {
            assert_eq!(text.parse::<ByteSize>(), Err(QuantityProblem::TooLarge), "{text}");
        }
    }

    #[test]
    fn reads_fractions_of_a_cpu() {
        assert_eq!("4.5".parse(), Ok(MilliCpus(4500)));
        assert_eq!("500m".parse(), Ok(MilliCpus(500)));
        assert_eq!(MilliCpus(4500).to_string(), "4500m");
        assert_eq!(MilliCpus(4000).to_string(), "4");
    }

    #[test]
    fn prints_sizes_with_their_unit() {
        assert_eq!(ByteSize(4 * GIB).to_string(), "4 GiB");
        assert_eq!(ByteSize(GIB + GIB / 2).to_string(), "1.5 GiB");
        assert_eq!(ByteSize(7).to_string(), "7 B");
    }

    #[test]
    fn keeps_whole_numbers_of_any_size_so_that_they_can_be_told() {
        let read = |text: &str| serde_json::from_str::<Quantity>(text);
        assert_eq!(read("4").expect("a number"), Quantity::Integer(4));
        assert_eq!(read("\"4Gi\"").expect("a text").bytes(), Ok(ByteSize(4 * GIB)));
        for huge in ["9223372036854775808", "99999999999999999999", "1e300"] {
            assert_eq!(read(huge).expect("a number").cpus(), Err(QuantityProblem::TooLarge), "{huge}");
        }
        assert_eq!(read("-99999999999999999999").expect("a number").cpus(), Err(QuantityProblem::Negative));
        for none in ["4.5", "true", "[]", "null"] {
            assert!(read(none).is_err(), "{none}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-+]?[0-9.]{0,40}([eE][-+]?[0-9]{0,12}|[a-zA-Z]{0,3})") {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<MilliCpus>();
        }

        #[test]
        fn whole_numbers_are_themselves(number in 0..=(u64::MAX >> 1)) {
            prop_assert_eq!(number.to_string().parse(), Ok(ByteSize(number)));
        }
    }
}
