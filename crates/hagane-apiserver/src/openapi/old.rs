//! `OpenAPI` v2: an empty document. Clients ask for it where they look at an object themselves, as kubectl does with a `List`:
//! a kind that is not in it is left to the server to judge.

use serde_json::{Value, json};

const TITLE: &str = "Hagane";
const SWAGGER: &str = "2.0";
const VERSION: &str = "v1";

/// Media type of the binary form, the only one that kubectl takes.
pub(crate) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// What clients write in Accept for it: no media type by the rules, so it is never answered.
pub(crate) const ASKED_FOR: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The document as JSON.
pub(crate) fn json() -> Value {
    json!({"swagger": SWAGGER, "info": {"title": TITLE, "version": VERSION}, "paths": {}})
}

/// The document in protobuf's wire form: field 1 the version of the format, field 2 title and version of what is described,
/// field 8 the paths.
pub(crate) fn protobuf() -> Vec<u8> {
    let mut info = text_field(1, TITLE.as_bytes());
    info.extend(text_field(2, VERSION.as_bytes()));
    let mut document = text_field(1, SWAGGER.as_bytes());
    document.extend(text_field(2, &info));
    document.extend(text_field(8, &[]));
    document
}

/// A field with a length in one byte: all there is here is short.
fn text_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let length = u8::try_from(bytes.len()).unwrap_or(0);
    let mut field = vec![number << 3 | LENGTH_DELIMITED, length];
    field.extend(&bytes[..usize::from(length)]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        assert_eq!(protobuf(), b"\x0a\x032.0\x12\x0c\x0a\x06Hagane\x12\x02v1\x42\x00");
        assert_eq!(json()["info"]["title"], TITLE);
    }
}
