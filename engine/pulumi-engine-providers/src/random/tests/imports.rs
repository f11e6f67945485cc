//! `import`, `get` and refresh: all through `read`.

use super::*;

#[test]
fn import_derives_inputs_and_outputs_from_id() {
    let cases = [
        (
            "RandomBytes",
            "fE+Jesqco6w20rpufjykBA==",
            "fE+Jesqco6w20rpufjykBA==",
            json!({"length": 16}),
            json!({
                "length": 16, "base64": "fE+Jesqco6w20rpufjykBA==", "hex": "7c4f897aca9ca3ac36d2ba6e7e3ca404",
            }),
        ),
        (
            "RandomId",
            "gEtk2V_GVJQ",
            "gEtk2V_GVJQ",
            json!({"byteLength": 8}),
            json!({
                "byteLength": 8, "b64Std": "gEtk2V/GVJQ=", "b64Url": "gEtk2V_GVJQ",
                "dec": "9244593544885589140", "hex": "804b64d95fc65494", "id": "gEtk2V_GVJQ",
            }),
        ),
        (
            "RandomId",
            "my,own-,gEtk2V_GVJQ",
            "gEtk2V_GVJQ",
            json!({"byteLength": 8, "prefix": "my,own-"}),
            json!({
                "byteLength": 8, "prefix": "my,own-", "b64Std": "my,own-gEtk2V/GVJQ=",
                "b64Url": "my,own-gEtk2V_GVJQ", "dec": "my,own-9244593544885589140",
                "hex": "my,own-804b64d95fc65494", "id": "gEtk2V_GVJQ",
            }),
        ),
        (
            "RandomInteger",
            "15390,1,50000",
            "15390",
            json!({"min": 1, "max": 50000}),
            json!({"min": 1, "max": 50000, "result": 15390, "id": "15390"}),
        ),
        (
            "RandomInteger",
            "-5,-10,10,12345",
            "-5",
            json!({"min": -10, "max": 10, "seed": "12345"}),
            json!({"min": -10, "max": 10, "seed": "12345", "result": -5, "id": "-5"}),
        ),
        (
            "RandomUuid",
            "827D0B34-00CC-B03D-D29B-542F354122CB",
            "827d0b34-00cc-b03d-d29b-542f354122cb",
            json!({}),
            json!({
                "id": "827d0b34-00cc-b03d-d29b-542f354122cb", "result": "827d0b34-00cc-b03d-d29b-542f354122cb",
            }),
        ),
        (
            "RandomUuid4",
            "{827d0b34-00cc-403d-929b-542f354122cb}",
            "827d0b34-00cc-403d-929b-542f354122cb",
            json!({}),
            json!({
                "id": "827d0b34-00cc-403d-929b-542f354122cb", "result": "827d0b34-00cc-403d-929b-542f354122cb",
            }),
        ),
        (
            "RandomUuid7",
            "827d0b3400cc703d929b542f354122cb",
            "827d0b34-00cc-703d-929b-542f354122cb",
            json!({}),
            json!({
                "id": "827d0b34-00cc-703d-929b-542f354122cb", "result": "827d0b34-00cc-703d-929b-542f354122cb",
            }),
        ),
    ];
    for (name, given, id, inputs, outputs) in cases {
        let found = import(name, given).unwrap();
        assert_eq!(found.id, id, "{name}");
        assert_eq!(found.inputs, properties(inputs.clone()), "{name}");
        assert_eq!(
            Property::Object(found.outputs.clone()).revealed(),
            outputs,
            "{name}"
        );
        assert!(
            diff(name, &found.outputs, inputs).changes.is_empty(),
            "{name}"
        );
    }
}

#[test]
fn import_of_string_is_its_result() {
    let inputs = json!({
        "length": 13, "upper": true, "lower": true, "number": true, "numeric": true, "special": true,
        "minUpper": 0, "minLower": 0, "minNumeric": 0, "minSpecial": 0,
    });
    for (name, id, meta) in [
        ("RandomString", "myspecialdata", r#"{"schema_version":"2"}"#),
        ("RandomPassword", "none", r#"{"schema_version":"3"}"#),
    ] {
        let found = import(name, "myspecialdata").unwrap();
        assert_eq!(found.id, id);
        assert_eq!(found.inputs, properties(inputs.clone()));
        assert_eq!(text(&found.outputs, "result"), "myspecialdata");
        assert_eq!(text(&found.outputs, "id"), id);
        assert_eq!(text(&found.outputs, "__meta"), meta);
        assert!(
            diff(name, &found.outputs, json!({"length": 13}))
                .changes
                .is_empty()
        );
    }
    let found = import("RandomPassword", "myspecialdata").unwrap().outputs;
    assert!(is_secret(&found, "result") && is_secret(&found, "bcryptHash"));
    assert!(bcrypt::verify("myspecialdata", &text(&found, "bcryptHash")).unwrap());
}

#[test]
fn import_malformed_id_names_format() {
    for (name, id, form) in [
        ("RandomBytes", "no base64!", "the bytes in base64"),
        ("RandomBytes", "", "the bytes in base64"),
        ("RandomId", "a+b/", "in the form for URLs"),
        ("RandomId", "prefix,", "in the form for URLs"),
        (
            "RandomInteger",
            "5",
            "RESULT,MIN,MAX or RESULT,MIN,MAX,SEED",
        ),
        ("RandomInteger", "5,1,x", "RESULT,MIN,MAX"),
        ("RandomInteger", "5,1,9,seed,more", "RESULT,MIN,MAX"),
        ("RandomString", "", "the text"),
        ("RandomPassword", "", "the password"),
        ("RandomPet", "wise-otter", "can't be imported"),
        ("RandomShuffle", "-", "can't be imported"),
        (
            "RandomUuid",
            "827d0b3400cc403d929b542f354122cb",
            "a UUID, such as",
        ),
        ("RandomUuid4", "x", "a UUID, such as"),
        ("RandomUuid7", "", "a UUID, such as"),
    ] {
        let error = import(name, id).unwrap_err().to_string();
        assert!(
            error.contains(form) && error.contains(name),
            "{name} {id}: {error}"
        );
    }
}

#[test]
fn import_failure_hides_password() {
    let error = import("RandomBytes", "hunter2!").unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn refresh_keeps_state() {
    for (name, inputs) in all() {
        let inputs = properties(inputs);
        let outputs = properties(
            json!({"id": "x", "any": ["thing"], "__pulumi_raw_state_delta": {"obj": {}}}),
        );
        for (given, expected) in [(Some(&inputs), inputs.clone()), (None, Properties::new())] {
            let request = ReadRequest {
                id: "x",
                inputs: given,
                outputs: &outputs,
            };
            let found = call(name, false, |call| Random.read(call, &request))
                .unwrap()
                .unwrap();
            assert_eq!(found.id, "x", "{name}");
            assert_eq!(found.inputs, expected, "{name}");
            assert_eq!(found.outputs, outputs, "{name}");
        }
    }
}

#[test]
fn get_trusts_state_of_program() {
    let outputs = properties(json!({"length": 2, "separator": "-"}));
    let request = ReadRequest {
        id: "wise-otter",
        inputs: None,
        outputs: &outputs,
    };
    let found = call("RandomPet", false, |call| Random.read(call, &request))
        .unwrap()
        .unwrap();
    assert_eq!(found.id, "wise-otter");
    assert_eq!(found.inputs, outputs);
}

#[test]
fn delete_does_nothing() {
    for (name, _) in all() {
        let outputs = Properties::new();
        let request = ReadRequest {
            id: "gone",
            inputs: None,
            outputs: &outputs,
        };
        assert_eq!(
            call(name, false, |call| Random.delete(call, &request)),
            Ok(()),
            "{name}"
        );
    }
}
