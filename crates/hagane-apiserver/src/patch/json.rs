//! JSON patches (RFC 6902), with the API's limits.

use json_patch::PatchOperation;
use serde_json::Value;

use crate::error::{ApiError, ApiResult};

/// Most operations of one patch.
const OPERATIONS_MAX: usize = 10_000;

/// Most bytes that the copies of one patch may make: a few of them, each twice the last, would fill any memory.
const COPIED_SIZE_MAX: usize = 3 * 1024 * 1024;

/// A list of operations that could be read.
pub(crate) struct Patch(json_patch::Patch);

impl Patch {
    /// Reads a patch.
    pub(crate) fn read(bytes: &[u8]) -> ApiResult<Self> {
        let patch: json_patch::Patch = serde_json::from_slice(bytes)
            .map_err(|error| ApiError::bad_request(format!("error decoding JSON patch: {error}")))?;
        if patch.0.len() > OPERATIONS_MAX {
            let mut error = ApiError::too_large(OPERATIONS_MAX);
            error.message =
                format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", patch.0.len());
            return Err(error);
        }
        Ok(Self(patch))
    }

    /// Applies all operations; on failure `target` may be left half way.
    pub(crate) fn apply(&self, target: &mut Value) -> Result<(), String> {
        let mut copied = 0;
        for operation in &self.0.0 {
            if let PatchOperation::Copy(copy) = operation {
                let size = target.pointer(copy.from.as_str()).map_or(0, |value| value.to_string().len());
                copied += size;
                if copied > COPIED_SIZE_MAX {
                    return Err(format!("the patch copies more than {COPIED_SIZE_MAX} bytes"));
                }
            }
            json_patch::patch(target, std::slice::from_ref(operation)).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Whether an operation writes or tests the value at `path`.
    pub(crate) fn touches(&self, path: &str) -> bool {
        self.0.iter().any(|operation| operation.path().as_str() == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unreadable_patches_are_told_from_ones_that_do_not_fit() {
        for text in [
            r#"[{"op":"add","path":"spec","value":1}]"#,
            r#"{"op":"add","path":"/spec/x","value":1}"#,
            "not json",
            r#"[{"op":"jump","path":"/a"}]"#,
        ] {
            assert_eq!(Patch::read(text.as_bytes()).err().map(|error| error.code.as_u16()), Some(400), "{text}");
        }
        for text in [
            r#"[{"op":"remove","path":"/spec/notThere"}]"#,
            r#"[{"op":"add","path":"/metadata/finalizers/7","value":"f"}]"#,
            r#"[{"op":"test","path":"/spec/online","value":false}]"#,
        ] {
            let patch = Patch::read(text.as_bytes()).expect("readable");
            let mut object = json!({"metadata": {"finalizers": []}, "spec": {"online": true}});
            assert!(patch.apply(&mut object).is_err(), "{text}");
        }
    }

    #[test]
    fn copies_of_copies_end() {
        let copies = vec![r#"{"op":"copy","from":"/a","path":"/a/-"}"#; 64].join(",");
        let patch = Patch::read(format!("[{copies}]").as_bytes()).expect("readable");
        let error = patch.apply(&mut json!({"a": ["x"]})).expect_err("too much");
        assert!(error.contains("copies more than"), "{error}");
    }

    #[test]
    fn slashes_in_keys_are_escaped() {
        let patch = Patch::read(br#"[{"op":"add","path":"/annotations/a~1b","value":"x"}]"#).expect("readable");
        let mut object = json!({"annotations": {}});
        patch.apply(&mut object).expect("fits");
        assert_eq!(object["annotations"]["a/b"], "x");
    }
}
