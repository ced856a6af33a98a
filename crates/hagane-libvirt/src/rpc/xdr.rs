//! XDR (RFC 4506): big-endian, everything padded to four bytes.
//!
//! Decoding never trusts a length: it is checked against a limit and against the bytes that are there.

/// Longest text the protocol allows.
pub const STRING_MAX: usize = 4 << 20;

/// Why bytes are no valid value of the wanted type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XdrError {
    /// The bytes end inside a value.
    #[error("the message ends inside a value")]
    Truncated,
    /// A length is beyond what the protocol allows.
    #[error("a length of {length} is over the limit of {limit}")]
    TooLong {
        /// What the message says.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// A presence flag is neither 0 nor 1.
    #[error("an option is marked with {0} instead of 0 or 1")]
    BadOption(u32),
    /// Bytes are left after the last value.
    #[error("{0} bytes are left after the last value")]
    Trailing(usize),
}

/// Writes values one after the other.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An empty message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an unsigned 32-bit number.
    #[must_use]
    pub fn u32(mut self, value: u32) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends a signed 32-bit number.
    #[must_use]
    pub fn i32(mut self, value: i32) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends an unsigned 64-bit number.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Appends bytes of a length both sides know.
    #[must_use]
    pub fn fixed(mut self, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Appends a text. One longer than the protocol allows is refused by the other side, not here.
    #[must_use]
    pub fn string(self, value: &str) -> Self {
        // A text of 4 GiB cannot get here: frames are bounded long before.
        let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.u32(length).fixed(value.as_bytes())
    }

    /// Appends a text that may be absent.
    #[must_use]
    pub fn optional_string(self, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.u32(1).string(value),
            None => self.u32(0),
        }
    }

    /// The encoded bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn pad(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }
}

/// Reads values one after the other.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], XdrError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(XdrError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], XdrError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(XdrError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next unsigned 32-bit number.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn u32(&mut self) -> Result<u32, XdrError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// The next signed 32-bit number.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn i32(&mut self) -> Result<i32, XdrError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// The next unsigned 64-bit number.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn u64(&mut self) -> Result<u64, XdrError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// The next 16 bytes, as those of a UUID.
    ///
    /// # Errors
    /// [`XdrError::Truncated`].
    pub fn uuid(&mut self) -> Result<[u8; 16], XdrError> {
        self.array()
    }

    /// The next length, at most `limit`.
    ///
    /// # Errors
    /// [`XdrError::TooLong`] or [`XdrError::Truncated`].
    pub fn length(&mut self, limit: usize) -> Result<usize, XdrError> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if length > limit { Err(XdrError::TooLong { length, limit }) } else { Ok(length) }
    }

    /// The next text. Bytes that are no UTF-8 (names a stranger chose) are replaced, not refused.
    ///
    /// # Errors
    /// [`XdrError::TooLong`] or [`XdrError::Truncated`].
    pub fn string(&mut self) -> Result<String, XdrError> {
        let length = self.length(STRING_MAX)?;
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.take(length.next_multiple_of(4) - length)?;
        Ok(text)
    }

    /// Whether an optional value follows.
    ///
    /// # Errors
    /// [`XdrError::BadOption`] or [`XdrError::Truncated`].
    pub fn present(&mut self) -> Result<bool, XdrError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(XdrError::BadOption(other)),
        }
    }

    /// The next text that may be absent.
    ///
    /// # Errors
    /// As for its parts.
    pub fn optional_string(&mut self) -> Result<Option<String>, XdrError> {
        if self.present()? { self.string().map(Some) } else { Ok(None) }
    }

    /// The next list of at most `limit` values, each read by `item`.
    ///
    /// # Errors
    /// As for its parts.
    pub fn list<T>(
        &mut self,
        limit: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, XdrError>,
    ) -> Result<Vec<T>, XdrError> {
        // The capacity is left to grow with what is really there.
        (0..self.length(limit)?).map(|_| item(self)).collect()
    }

    /// Says that the message must end here.
    ///
    /// # Errors
    /// [`XdrError::Trailing`].
    pub fn end(&self) -> Result<(), XdrError> {
        if self.rest.is_empty() { Ok(()) } else { Err(XdrError::Trailing(self.rest.len())) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pads_texts_to_four_bytes() {
        let bytes = Encoder::new().string("abcde").u32(7).finish();
        assert_eq!(bytes, [0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e', 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn refuses_lengths_beyond_the_message_and_the_limit() {
        assert_eq!(Decoder::new(&[0, 0, 0, 9, b'a']).string(), Err(XdrError::Truncated));
        assert_eq!(
            Decoder::new(&[0xff, 0xff, 0xff, 0xff]).string(),
            Err(XdrError::TooLong { length: 0xffff_ffff, limit: STRING_MAX })
        );
        assert_eq!(Decoder::new(&[0, 0, 0, 2]).optional_string(), Err(XdrError::BadOption(2)));
        assert_eq!(Decoder::new(&[0, 0, 0, 2, 0, 0, 0, 1]).list(16, Decoder::u32), Err(XdrError::Truncated));
        assert_eq!(Decoder::new(&[1]).end(), Err(XdrError::Trailing(1)));
    }

    proptest! {
        #[test]
        fn reads_back_what_it_wrote(text in ".{0,40}", number: u32, large: u64, signed: i32, option in proptest::option::of("[a-z]{0,9}")) {
            let bytes = Encoder::new()
                .string(&text).u32(number).u64(large).i32(signed).optional_string(option.as_deref()).finish();
            prop_assert_eq!(bytes.len() % 4, 0);
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(decoder.string(), Ok(text));
            prop_assert_eq!(decoder.u32(), Ok(number));
            prop_assert_eq!(decoder.u64(), Ok(large));
            prop_assert_eq!(decoder.i32(), Ok(signed));
            prop_assert_eq!(decoder.optional_string(), Ok(option));
            prop_assert_eq!(decoder.end(), Ok(()));
        }

        #[test]
        fn never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut decoder = Decoder::new(&bytes);
            let _ = decoder.list(8, Decoder::optional_string);
            let _ = decoder.string();
            let _ = decoder.uuid();
        }
    }
}
