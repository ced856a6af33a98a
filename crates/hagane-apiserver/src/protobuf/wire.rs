//! The wire form of protobuf: fields with numbers.

/// What a body can be wrong in.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ProtobufError {
    /// It does not begin as Kubernetes' protobuf bodies do.
    #[error("the body does not begin with the bytes that mark Kubernetes' protobuf form")]
    Mark,
    /// A field is cut off or has an impossible form.
    #[error("the protobuf message is cut off or malformed")]
    Malformed,
    /// A text is not UTF-8, or JSON inside the message is not JSON.
    #[error("the protobuf field {0} cannot be read")]
    Field(&'static str),
    /// A kind that is not read from protobuf.
    #[error("objects of kind {kind} in {api_version} are not read from protobuf")]
    Kind {
        /// As the body says.
        api_version: String,
        /// As the body says.
        kind: String,
    },
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    /// Numbers and flags.
    Varint(u64),
    /// Texts, bytes, messages.
    Bytes(&'a [u8]),
    /// Forms that no message here uses.
    Other,
}

/// The fields of a message, in the order they stand.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => self.take(8).map(|_| Wire::Other)?,
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Other)?,
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(ProtobufError::Malformed))
    }
}
