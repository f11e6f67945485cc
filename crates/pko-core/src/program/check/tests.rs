//! Tables of valid and invalid programs, and properties of every program.

use pko_api::pulumi::v1::ProgramBody;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn findings(program: &Value) -> Findings {
    let body: ProgramBody = serde_json::from_value(program.clone()).unwrap();
    check("demo", &body)
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}

fn problems(program: &Value) -> Vec<String> {
    texts(&findings(program).problems)
}

fn remarks(program: &Value) -> Vec<String> {
    texts(&findings(program).remarks)
}

/// A program with one resource in addition to `bucket`, a variable and a config value.
fn with_resource(resource: &Value) -> Value {
    json!({
        "config": { "size": { "type": "integer" } },
        "variables": { "list": ["${bucket}"] },
        "resources": { "bucket": { "type": "aws:s3:Bucket" }, "other": resource },
    })
}

fn with_options(options: &Value) -> Value {
    with_resource(&json!({ "type": "aws:s3:Object", "options": options }))
}

fn with_output(value: &Value) -> Value {
    json!({ "outputs": { "out": value }, "variables": { "name": 1 } })
}

#[test]
fn valid_programs_have_no_problem() {
    for program in [
        json!({}),
        json!({ "description": "nothing" }),
        json!({ "name": "demo", "runtime": "yaml", "backend": { "url": "file://" } }),
        json!({ "configuration": { "size": { "type": "Number", "default": 3 } }, "outputs": { "a": "${size}" } }),
        json!({ "config": { "size": { "default": 3 } }, "configuration": { "size": { "type": "Number" } } }),
        json!({ "config": { "aws:region": "eu-west-1" }, "outputs": { "a": "${aws:region}" } }),
        json!({ "config": { "size": { "default": 3 } }, "outputs": { "a": "${demo:size}" } }),
        json!({ "variables": { "a": "${b}", "b": 1 }, "outputs": { "a": "${a}", "b": "${a}" } }),
        json!({ "outputs": { "stack": "${pulumi.stack}", "a": 1 }, "variables": { "a": 2 } }),
        with_resource(&json!({ "type": "pulumi:providers:aws", "defaultProvider": true })),
        with_resource(
            &json!({ "type": "aws:Provider", "get": { "id": "${size}", "state": { "a": 1 } } }),
        ),
        with_resource(&json!({ "type": "a:b:C", "get": { "id": "i" }, "properties": {} })),
        with_resource(&json!({ "type": "a:b:C", "condition": 1, "metadata": {} })),
        with_options(
            &json!({ "dependsOn": ["${bucket}"], "parent": "${bucket}", "protect": true }),
        ),
        with_options(
            &json!({ "dependsOn": ["${list[0]}", "${fromConfig}", { "fn::select": [0, "${list}"] }] }),
        ),
        with_options(&json!({ "replaceWith": "${list}", "deletedWith": "${bucket}" })),
        with_options(&json!({ "providers": { "aws": "${bucket}" }, "provider": "${bucket}" })),
    ] {
        assert_eq!(
            findings(&program),
            Findings::default_with(&program),
            "{program}"
        );
    }
}

impl Findings {
    /// No problem; remarks only on the undeclared name.
    fn default_with(program: &Value) -> Self {
        let found = findings(program);
        let expected = found
            .remarks
            .iter()
            .filter(|remark| remark.text.contains("fromConfig"));
        Self {
            problems: Vec::new(),
            remarks: expected.cloned().collect(),
        }
    }
}

#[test]
fn known_functions_are_accepted() {
    for value in [
        json!({ "fn::join": [",", ["a", "${name}"]] }),
        json!({ "FN::Join": [",", "${name}"] }),
        json!({ "fn::invoke": { "function": "aws:ec2:getAmi", "arguments": { "a": "${name}" }, "return": "id" } }),
        json!({ "fn::invoke": { "Function": "aws:ec2:getAmi", "options": { "version": "1.0.0" } } }),
        json!({ "fn::aws:ec2:getAmi": { "owners": ["amazon"] } }),
        json!({ "fn::aws:getAmi": "anything" }),
        json!({ "fn::stackReference": ["org/project/stack", "output"] }),
        json!({ "fn::assetArchive": { "a": { "fn::fileAsset": "./a" }, "b": { "fn::AssetArchive": {} } } }),
        json!({ "fn::secret": { "fn::toJSON": { "a": ["${name}"] } } }),
        json!({ "fn::join": 1, "fn::secret": 2 }),
        json!({ "fn::singleOrNone": ["a"], "plain": true }),
        json!({ "${name}": "a key may refer, too" }),
        json!({ "fn::readFile": "./a" }),
        json!({ "fn::length": [] }),
        json!({ "fn::pulumiResourceType": "${name}" }),
    ] {
        let program = with_output(&value);
        assert_eq!(findings(&program), Findings::default(), "{value}");
    }
}

#[test]
fn function_with_wrong_arguments_is_a_problem() {
    for (value, expected) in [
        (
            json!({ "fn::join": ["a"] }),
            "program.outputs.out.fn::join: fn::join takes a list of two, not a list of 1",
        ),
        (
            json!({ "fn::select": "${name}" }),
            "program.outputs.out.fn::select: fn::select takes a list of two, not a reference",
        ),
        (
            json!({ "fn::split": { "a": 1 } }),
            "program.outputs.out.fn::split: fn::split takes a list of two, not an object",
        ),
        (
            json!({ "fn::stackReference": ["${name}", "output"] }),
            "program.outputs.out.fn::stackReference[0]: the stack must be a literal string; use pulumi:pulumi:StackReference for other values",
        ),
        (
            json!({ "fn::invoke": "aws:ec2:getAmi" }),
            "program.outputs.out.fn::invoke: fn::invoke takes an object with function, arguments, options and return, not a string",
        ),
        (
            json!({ "fn::invoke": { "arguments": {} } }),
            "program.outputs.out.fn::invoke: has no function; add one, such as aws:ec2:getAmi",
        ),
        (
            json!({ "fn::invoke": { "function": "a${name}" } }),
            "program.outputs.out.fn::invoke.function: must be a literal string",
        ),
        (
            json!({ "fn::invoke": { "function": "a:b:c", "arguments": "${name}" } }),
            "program.outputs.out.fn::invoke.arguments: must be an object, not a reference",
        ),
        (
            json!({ "fn::invoke": { "function": "a:b:c", "arguments": { "fn::toJSON": 1 } } }),
            "program.outputs.out.fn::invoke.arguments: must be an object, not a function call",
        ),
        (
            json!({ "fn::invoke": { "function": "a:b:c", "return": 1 } }),
            "program.outputs.out.fn::invoke.return: must be a literal string",
        ),
        (
            json!({ "fn::assetArchive": ["a"] }),
            "program.outputs.out.fn::assetArchive: fn::assetArchive takes an object of assets and archives by path, not a list of 1",
        ),
        (
            json!({ "fn::assetArchive": { "a/b": null } }),
            "program.outputs.out.fn::assetArchive[\"a/b\"]: must be an asset or an archive such as {\"fn::fileAsset\": …}, not null",
        ),
        (
            json!({ "fn::fileAsset": "a", "b": true }),
            "program.outputs.out: fn::fileAsset must be the only key of its object",
        ),
    ] {
        assert_eq!(problems(&with_output(&value)), [expected], "{value}");
    }
}

#[test]
fn unknown_function_is_a_remark() {
    assert_eq!(
        remarks(&with_output(&json!({ "fn::jion": [",", []] }))),
        [
            "program.outputs.out: \"fn::jion\" is not a Pulumi function and is kept as a plain key; did you mean \"fn::join\"?"
        ]
    );
    let unlike = with_output(&json!({ "fn::something": "${" }));
    assert_eq!(remarks(&unlike).len(), 1);
    assert_eq!(problems(&unlike).len(), 1);
}

#[test]
fn malformed_interpolation_is_a_problem_everywhere() {
    let broken = "${broken";
    let beginnings = [
        (json!({ "outputs": { "a": broken } }), "program.outputs.a"),
        (
            json!({ "variables": { "a": [1, broken] } }),
            "program.variables.a[1]",
        ),
        (
            json!({ "config": { "a": { "default": broken } } }),
            "program.config.a.default",
        ),
        (
            json!({ "configuration": { "a": { "default": { "b": broken } } } }),
            "program.configuration.a.default.b",
        ),
        (
            json!({ "configuration": { "a": { "value": broken } } }),
            "program.configuration.a.value",
        ),
        (
            with_resource(
                &json!({ "type": "a:b:C", "properties": { "x": { "fn::toJSON": broken } } }),
            ),
            "program.resources.other.properties.x.fn::toJSON",
        ),
        (
            with_resource(&json!({ "type": "a:b:C", "get": { "id": broken } })),
            "program.resources.other.get.id",
        ),
        (
            with_resource(
                &json!({ "type": "a:b:C", "get": { "id": "i", "state": { "x": broken } } }),
            ),
            "program.resources.other.get.state.x",
        ),
        (
            with_options(&json!({ "dependsOn": [broken] })),
            "program.resources.other.options.dependsOn[0]",
        ),
        (
            with_options(&json!({ "aliases": [broken] })),
            "program.resources.other.options.aliases[0]",
        ),
        (
            with_options(&json!({ "parent": broken })),
            "program.resources.other.options.parent",
        ),
        (
            with_options(&json!({ "replacementTrigger": broken })),
            "program.resources.other.options.replacementTrigger",
        ),
        (
            with_output(&json!({ "${broken": 1, "b": 2 })),
            "program.outputs.out",
        ),
    ];
    for (program, path) in beginnings {
        let found = problems(&program);
        assert_eq!(found.len(), 1, "{program}: {found:?}");
        let expected = format!(
            "{path}: \"${{broken\" has no closing brace; add }}, or write $$ for a dollar sign"
        );
        assert_eq!(found[0], expected, "{program}");
    }
}

#[test]
fn secret_value_is_not_quoted() {
    let program = with_output(&json!({ "fn::secret": "hunter2${" }));
    assert_eq!(
        problems(&program),
        ["program.outputs.out.fn::secret: contains an interpolation ${…} that cannot be parsed"]
    );
    let program = with_output(&json!([{ "fn::secret": 1 }, "${open"]));
    assert!(problems(&program)[0].contains("${open"));
}

#[test]
fn invalid_resource_is_a_problem() {
    for (resource, expected) in [
        (
            json!({ "type": "" }),
            "program.resources.other.type: is empty; set a type, such as aws:s3:Bucket",
        ),
        (
            json!({ "type": "Bucket" }),
            "program.resources.other.type: \"Bucket\" is not a type; write package:Type or package:module:Type, such as aws:s3:Bucket",
        ),
        (
            json!({ "type": "a:b:c:D" }),
            "program.resources.other.type: \"a:b:c:D\" is not a type; write package:Type or package:module:Type, such as aws:s3:Bucket",
        ),
        (
            json!({ "type": "a:b:C", "defaultProvider": false }),
            "program.resources.other.defaultProvider: only a provider can have this, but the type is \"a:b:C\": remove it",
        ),
        (
            json!({ "type": "a:b:C", "get": { "id": "" } }),
            "program.resources.other.get.id: is empty; set the id of the existing resource",
        ),
        (
            json!({ "type": "a:b:C", "get": { "id": "i" }, "properties": { "a": 1 } }),
            "program.resources.other.get: get and properties are mutually exclusive; remove one",
        ),
        (
            json!({ "type": "a:b:C", "propertys": {} }),
            "program.resources.other.propertys: unknown resource field; did you mean \"properties\"?",
        ),
    ] {
        assert_eq!(
            problems(&with_resource(&resource)),
            [expected],
            "{resource}"
        );
    }
}

#[test]
fn option_without_resource_is_a_problem() {
    for (options, expected) in [
        (
            json!({ "dependsOn": ["${bucket}", "bukcet"] }),
            "dependsOn[1]: \"bukcet\" is a string, not a resource; write \"${bucket}\"",
        ),
        (
            json!({ "parent": "something" }),
            "parent: \"something\" is a string, not a resource; write ${name} of a resource",
        ),
        (
            json!({ "provider": "x${bucket}" }),
            "provider: \"x${bucket}\" is a string, not a resource",
        ),
        (
            json!({ "provider": "${size}" }),
            "provider: \"${size}\" is a config value, not a resource",
        ),
        (
            json!({ "providers": { "aws": 7 } }),
            "providers.aws: 7 is a number, not a resource; write ${name}",
        ),
        (
            json!({ "deletedWith": true }),
            "deletedWith: true is a boolean, not a resource; write ${name}",
        ),
        (
            json!({ "replaceWith": ["bucket"] }),
            "replaceWith[0]: \"bucket\" is a string, not a resource; write \"${bucket}\"",
        ),
        (
            json!({ "dependson_": [] }),
            "dependson_: unknown option; did you mean \"dependsOn\"?",
        ),
    ] {
        let expected = format!("program.resources.other.options.{expected}");
        assert_eq!(problems(&with_options(&options)), [expected], "{options}");
    }
}

#[test]
fn unknown_field_is_a_remark() {
    for (program, expected) in [
        (
            json!({ "novelty": 1 }),
            "program.novelty: unknown field; Pulumi ignores it",
        ),
        (
            json!({ "resource": {} }),
            "program.resource: unknown field; Pulumi ignores it; did you mean \"resources\"?",
        ),
        (
            with_resource(&json!({ "type": "a:b:C", "novelty": 1 })),
            "program.resources.other.novelty: unknown resource field; this version of Pulumi may reject it",
        ),
        (
            with_options(&json!({ "novelty": 1 })),
            "program.resources.other.options.novelty: unknown option; this version of Pulumi may reject it",
        ),
        (
            with_options(&json!({ "DependsOn": ["${bucket}"] })),
            "program.resources.other.options.DependsOn: is spelled \"dependsOn\"",
        ),
    ] {
        let found = findings(&program);
        assert_eq!(texts(&found.remarks), [expected], "{program}");
        assert_eq!(found.problems, [], "{program}");
    }
}

#[test]
fn undeclared_name_is_a_remark() {
    let program = json!({ "variables": { "bucket": 1 }, "outputs": { "a": "${bukcet.id}", "b": "${elsewhere}" } });
    assert_eq!(
        remarks(&program),
        [
            "program.outputs.a: \"bukcet\" is not declared in the program, so the stack's config must contain it; did you mean \"bucket\"?",
            "program.outputs.b: \"elsewhere\" is not declared in the program, so the stack's config must contain it",
        ]
    );
}

#[test]
fn duplicate_name_is_a_problem() {
    let resource = json!({ "type": "a:b:C" });
    for (program, expected) in [
        (
            json!({ "variables": { "a": 1 }, "resources": { "a": resource } }),
            "program.variables.a: a resource has the same name; rename one",
        ),
        (
            json!({ "config": { "a": { "type": "string" } }, "resources": { "a": resource } }),
            "program.resources.a: a config value has the same name; rename one",
        ),
        (
            json!({ "configuration": { "a": {} }, "variables": { "a": 1 } }),
            "program.variables.a: a config value has the same name; rename one",
        ),
        (
            json!({ "variables": { "pulumi": 1 } }),
            "program.variables.pulumi: this name is reserved by Pulumi; use another",
        ),
    ] {
        assert_eq!(problems(&program), [expected], "{program}");
    }
}

#[test]
fn cycle_is_a_problem_where_it_begins() {
    let resource = |options: Value| json!({ "type": "a:b:C", "options": options });
    for (program, expected) in [
        (
            json!({ "variables": { "a": "${a}" } }),
            "program.variables.a: refers to itself: a -> a; remove one of these references",
        ),
        (
            json!({ "variables": { "a": "${b}", "b": ["${c.d}"], "c": { "fn::toJSON": "x${a}" }, "d": "${a}" } }),
            "program.variables.a: refers to itself: a -> b -> c -> a; remove one of these references",
        ),
        (
            json!({
                "resources": { "r": resource(json!({ "dependsOn": ["${s}"] })), "s": resource(json!({ "parent": "${v}" })) },
                "variables": { "v": "${r.id}" },
            }),
            "program.resources.r: refers to itself: r -> s -> v -> r; remove one of these references",
        ),
    ] {
        assert_eq!(problems(&program), [expected], "{program}");
    }
    // References that Pulumi does not order by form no cycle.
    let deleted = json!({ "resources": {
        "r": resource(json!({ "deletedWith": "${s}" })), "s": resource(json!({ "dependsOn": ["${r}"] })),
    } });
    assert_eq!(problems(&deleted), [""; 0]);
}

#[test]
fn long_reference_chain_is_followed() {
    let variables =
        (0..9_000).map(|number| (format!("v{number}"), json!(format!("${{v{}}}", number + 1))));
    let mut body = ProgramBody {
        variables: variables.collect(),
        ..ProgramBody::default()
    };
    assert_eq!(check("demo", &body).problems, []);
    body.variables.insert("v9000".into(), json!("${v0}"));
    assert_eq!(check("demo", &body).problems.len(), 1);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "(a|b|\\$\\{a\\}|\\$\\{b\\.x\\}|\\$\\{|\\$){0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let key = prop_oneof!["[ab]", "fn::(join|invoke|secret|fileAsset|nosuch|a:b)"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    /// The check of any program is deterministic, and each finding has a path.
    #[test]
    fn program_check_accepts_any_program(a in any_value(), b in any_value(), out in any_value()) {
        let program = json!({
            "variables": { "a": a },
            "resources": { "b": { "type": "t:T", "properties": { "x": b }, "options": { "dependsOn": [out] } } },
            "outputs": { "out": out },
        });
        let found = findings(&program);
        prop_assert_eq!(&found, &findings(&program));
        for finding in found.problems.iter().chain(&found.remarks) {
            prop_assert!(finding.path.starts_with("program."), "{finding}");
            prop_assert!(!finding.text.is_empty());
        }
    }

    /// A value without a dollar sign or a function is never a problem.
    #[test]
    fn plain_data_has_no_finding(value in any_value()) {
        let text = value.to_string();
        prop_assume!(!text.contains('$') && !text.contains("fn::"));
        prop_assert_eq!(findings(&with_output(&value)), Findings::default());
    }
}

/// The problems of the programs in a project file. A program that the CRD rejects, such as one of
/// upstream's with alias objects, is skipped.
fn problems_of_project(text: &str) -> Vec<String> {
    let documents = pko_testkit::fixtures::parse(text).unwrap();
    let is_of_the_crd =
        |document: &&Value| serde_json::from_value::<ProgramBody>((*document).clone()).is_ok();
    documents
        .iter()
        .filter(is_of_the_crd)
        .flat_map(problems)
        .collect()
}

fn in_repository(path: &str) -> std::path::PathBuf {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    repository.join(path)
}

#[test]
fn program_that_the_cli_runs_is_accepted() {
    let folder = in_repository("engine/pko-engine/tests/conformance");
    let mut programs = 0;
    for evaluation in folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let file = evaluation.join("case.yaml");
        let cases = if file.is_file() {
            pko_testkit::fixtures::load(&file).unwrap()
        } else {
            Vec::new()
        };
        let steps = cases
            .iter()
            .filter_map(|evaluation| evaluation["steps"].as_array())
            .flatten();
        for step in steps.filter(|step| step["exit"].as_i64().unwrap_or_default() == 0) {
            if let Some(program) = step["program"].as_str() {
                assert_eq!(
                    problems_of_project(program),
                    [""; 0],
                    "{}:\n{program}",
                    evaluation.display()
                );
                programs += 1;
            }
        }
    }
    assert!(programs > 20, "{programs}");
}

#[test]
fn documented_programs_are_accepted() {
    let folder = in_repository("testing/manifests/accepted");
    let objects = pko_testkit::fixtures::load(&folder).unwrap();
    let programs: Vec<_> = objects
        .iter()
        .filter(|object| object["kind"] == "Program")
        .collect();
    assert!(!programs.is_empty());
    for program in programs {
        assert_eq!(problems(&program["program"]), [""; 0], "{program}");
    }
}
