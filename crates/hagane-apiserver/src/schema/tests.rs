use std::sync::Arc;

use serde_json::{Value, json};

use super::{Schema, structural_problems};

fn schema(spec: Value) -> Schema {
    Schema::new(Arc::new(json!({"type": "object", "properties": {"spec": spec}})))
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn errors(schema: &Schema, object: &Value) -> Vec<String> {
    schema.validate(object, None).iter().map(ToString::to_string).collect()
}

#[test]
fn prunes_what_is_not_known_and_names_it() {
    let schema = schema(object(json!({
        "known": {"type": "string"},
        "ports": {"type": "array", "items": object(json!({"port": {"type": "integer"}}))},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                 "properties": {"inner": object(json!({"a": {"type": "string"}}))}},
        "map": {"type": "object", "additionalProperties": object(json!({"a": {"type": "string"}}))},
        "any": {"type": "object", "additionalProperties": true},
        "bare": {"type": "object"},
    })));
    let mut value = json!({
        "apiVersion": "a/v1", "kind": "K", "top": 1,
        "metadata": {"name": "n", "labels": {"x": "y"}, "colour": "red", "managedFields": [{"fieldsV1": {"f:a": {}}}]},
        "spec": {
            "known": "a", "foo": 1,
            "ports": [{"port": 1, "x": 1}],
            "free": {"b": 1, "inner": {"a": "", "c": 1}},
            "map": {"k": {"a": "", "z": 1}},
            "any": {"z": {"y": 1}},
            "bare": {"w": 1},
        },
    });
    let whole = value.clone();
    assert_eq!(
        schema.prune(&mut value),
        ["metadata.colour", "spec.bare.w", "spec.foo", "spec.free.inner.c", "spec.map.k.z", "spec.ports[0].x", "top"]
    );
    assert_eq!(
        value,
        json!({
            "apiVersion": "a/v1", "kind": "K",
            "metadata": {"name": "n", "labels": {"x": "y"}, "managedFields": [{"fieldsV1": {"f:a": {}}}]},
            "spec": {
                "known": "a", "ports": [{"port": 1}], "free": {"b": 1, "inner": {"a": ""}}, "map": {"k": {"a": ""}},
                "any": {"z": {"y": 1}}, "bare": {},
            },
        })
    );
    assert_eq!(schema.unknown_fields(&whole).len(), 7);
    assert!(schema.unknown_fields(&value).is_empty());
}

#[test]
fn keeps_everything_without_a_schema() {
    let schema = Schema::new(Arc::new(json!({})));
    let mut value = json!({"metadata": {"name": "n"}, "anything": {"goes": 1}});
    assert!(schema.prune(&mut value).is_empty());
    assert!(errors(&schema, &value).is_empty());
}

#[test]
fn fills_defaults_where_the_parent_exists_and_drops_nulls() {
    let schema = schema(object(json!({
        "count": {"type": "integer", "default": 3},
        "sub": object(json!({"word": {"type": "string", "default": "x"}})),
        "made": {"type": "object", "default": {}, "properties": {"word": {"type": "string", "default": "y"}}},
        "open": {"type": "string", "nullable": true, "default": "z"},
        "closed": {"type": "string"},
        "list": {"type": "array", "items": object(json!({"port": {"type": "integer", "default": 80}}))},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    })));
    let mut value = json!({
        "metadata": {"name": "n", "creationTimestamp": null},
        "spec": {"count": null, "open": null, "closed": null, "list": [{}], "labels": {"a": null, "b": "c"}},
    });
    schema.default(&mut value);
    assert_eq!(
        value,
        json!({
            "metadata": {"name": "n"},
            "spec": {
                "count": 3, "open": null, "list": [{"port": 80}], "labels": {"b": "c"}, "made": {"word": "y"},
            },
        })
    );
    let mut empty = json!({"metadata": {"name": "n"}});
    schema.default(&mut empty);
    assert_eq!(empty, json!({"metadata": {"name": "n"}}));
}

#[test]
fn says_what_is_wrong_in_the_words_clients_know() {
    let schema = schema(json!({
        "type": "object",
        "required": ["needed"],
        "maxProperties": 40,
        "properties": {
            "needed": {"type": "string"},
            "count": {"type": "integer", "minimum": 1, "maximum": 10},
            "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "multipleOf": 0.5},
            "word": {"type": "string", "enum": ["a", "b"]},
            "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
            "when": {"type": "string", "format": "date-time"},
            "size": {"x-kubernetes-int-or-string": true},
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": object(json!({"name": {"type": "string"}, "v": {"type": "integer"}}))},
            "big": {"type": "integer", "format": "int32"},
        },
    }));
    let value = json!({"spec": {
        "count": 0, "ratio": 0, "word": "c", "name": "A", "when": "soon", "size": 1.5,
        "list": ["a", "b", 3], "set": ["a", "a"], "map": [{"name": "x", "v": 1}, {"name": "x", "v": 2}],
        "big": 4_294_967_296_i64,
    }});
    assert_eq!(
        errors(&schema, &value),
        [
            "spec.needed: Required value",
            "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1",
            "spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0",
            r#"spec.word: Unsupported value: "c": supported values: "a", "b""#,
            r#"spec.name: Invalid value: "A": spec.name in body should be at least 2 chars long"#,
            r#"spec.name: Invalid value: "A": spec.name in body should match '^[a-z]+$'"#,
            r#"spec.when: Invalid value: "soon": spec.when in body must be of type date-time: "soon""#,
            r#"spec.size: Invalid value: "number": spec.size in body must be of type integer,string: "number""#,
            "spec.list: Too many: 3: must have at most 2 items",
            r#"spec.list[2]: Invalid value: "integer": spec.list[2] in body must be of type string: "integer""#,
            r#"spec.set[1]: Duplicate value: "a""#,
            r#"spec.map[1]: Duplicate value: {"name":"x"}"#,
            "spec.big: Invalid value: 4294967296: spec.big in body must be of type integer, format int32",
        ]
    );
    let value =
        json!({"spec": {"needed": "x", "name": "toolong", "list": [], "count": 11, "ratio": 0.3, "size": "5%"}});
    assert_eq!(
        errors(&schema, &value),
        [
            "spec.name: Too long: may not be more than 5 bytes",
            "spec.list: Invalid value: []: spec.list in body should have at least 1 items",
            "spec.count: Invalid value: 11: spec.count in body should be less than or equal to 10",
            "spec.ratio: Invalid value: 0.3: spec.ratio in body should be a multiple of 0.5",
        ]
        .map(str::to_owned)
        .to_vec()
    );
    assert!(errors(&schema, &json!({"spec": {"needed": "x", "count": 3.0, "size": 3, "ratio": 1.5}})).is_empty());
    assert_eq!(
        errors(&schema, &json!({"spec": "text"})),
        [r#"spec: Invalid value: "string": spec in body must be of type object: "string""#]
    );
    let causes: Vec<_> = schema.validate(&json!({"spec": {"needed": 3}}), None);
    assert_eq!(causes[0].problem.cause_reason(), "FieldValueTypeInvalid");
    let causes = errors(&schema, &json!({"metadata": {"labels": {"a": 1}}}));
    assert_eq!(
        causes,
        [r#"metadata.labels.a: Invalid value: "integer": metadata.labels.a in body must be of type string: "integer""#]
    );
}

#[test]
fn checks_logical_combinations() {
    let schema = schema(json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        "not": {"required": ["c"], "properties": {"c": {"enum": [13]}}},
        "anyOf": [{"properties": {"c": {"minimum": 10}}}, {"properties": {"c": {"maximum": 5}}}],
    }));
    assert!(errors(&schema, &json!({"spec": {"a": "x", "c": 10}})).is_empty());
    assert_eq!(
        errors(&schema, &json!({"spec": {"a": "x", "b": "y"}})),
        [
            r#"spec: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert_eq!(
        errors(&schema, &json!({"spec": {"c": 7}})),
        [
            r#"spec: Invalid value: "": "spec" must validate at least one schema (anyOf)"#,
            "spec.c: Invalid value: 7: spec.c in body should be greater than or equal to 10",
            r#"spec: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value",
        ]
    );
    assert_eq!(
        errors(&schema, &json!({"spec": {"a": "x", "c": 13}})),
        [r#"spec: Invalid value: "": "spec" must not validate the schema (not)"#]
    );
}

#[test]
fn lets_unchanged_parts_of_an_update_be() {
    let schema = schema(object(json!({
        "count": {"type": "integer", "minimum": 5},
        "word": {"type": "string"},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": object(json!({"name": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}))},
    })));
    let old = json!({"spec": {"count": 1, "word": "a", "map": [{"name": "x", "v": 1}]}});
    let new = json!({"spec": {"count": 1, "word": "b", "map": [{"name": "y", "v": 6}, {"name": "x", "v": 1}]}});
    assert!(schema.validate(&new, Some(&old)).is_empty());
    let new = json!({"spec": {"count": 2, "map": [{"name": "x", "v": 2}]}});
    assert_eq!(schema.validate(&new, Some(&old)).len(), 2);
}

#[test]
fn takes_embedded_objects_with_their_metadata() {
    let schema = schema(object(json!({"template": {
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    }})));
    let mut value = json!({"spec": {"template": {
        "apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "oops": 1}, "anything": 1,
    }}});
    assert_eq!(schema.prune(&mut value), ["spec.template.metadata.oops"]);
    assert!(errors(&schema, &value).is_empty());
}

#[test]
fn accepts_the_schemas_of_all_our_kinds() {
    for kind in hagane_api::kinds() {
        let problems = structural_problems(&(kind.schema)(), "s");
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert!(problems.is_empty(), "{}: {problems:?}", kind.full_name());
    }
}

#[test]
fn names_what_is_not_structural() {
    let raw = json!({
        "type": "object",
        "properties": {
            "metadata": {"type": "object", "properties": {"labels": {"type": "object"}}},
            "untyped": {"description": "x"},
            "list": {"type": "array"},
            "elements": {"type": "array", "items": {}},
            "both": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
            "closed": {"type": "object", "additionalProperties": false},
            "reference": {"type": "object", "$ref": "#/x"},
            "unique": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
            "pattern": {"type": "string", "pattern": "("},
            "default": {"type": "object", "properties": {"a": {"type": "string"}}, "default": {"a": 1, "b": 2}},
            "typed": {"type": "integer", "x-kubernetes-int-or-string": true},
            "odd": {"type": "text"},
            "keys": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            "size": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
        "anyOf": [{"type": "object", "properties": {"unknown": {"minimum": 1}}}],
    });
    let problems: Vec<_> = structural_problems(&raw, "s").iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "s.properties[untyped].type: Required value: must not be empty for specified object fields",
            "s.properties[list].items: Required value: must be specified",
            "s.properties[elements].items.type: Required value: must not be empty for specified array items",
            "s.properties[both].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            "s.properties[closed].additionalProperties: Forbidden: additionalProperties cannot be set to false",
            "s.properties[reference].$ref: Forbidden: $ref is not supported",
            "s.properties[unique].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            r#"s.properties[pattern].pattern: Invalid value: "(": must be a valid regular expression, but isn't: unclosed group"#,
            r#"s.properties[default].default: Invalid value: {"a":1,"b":2}: must not have unknown fields"#,
            r#"s.properties[default].default.a: Invalid value: "integer": a in body must be of type string: "integer""#,
            r#"s.properties[typed].type: Invalid value: "integer": must be empty if x-kubernetes-int-or-string is true"#,
            r#"s.properties[odd].type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            "s.properties[keys].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            "s.anyOf[0].type: Forbidden: must be empty to be structural",
            "s.properties[unknown]: Required value: because it is defined in a logical combination, it must be specified outside too",
            "s.properties[metadata].properties[labels]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ]
    );
    assert_eq!(
        structural_problems(&json!({}), "s")[0].to_string(),
        "s.type: Required value: must not be empty at the root"
    );
}
