//! Entry points for fuzzing: no input may panic, except for a violated invariant.

#![expect(
    clippy::missing_panics_doc,
    reason = "to panic is how they say that something does not hold"
)]

use std::collections::BTreeMap;

use pulumi_engine_deploy::program::{
    evaluate::{self, EvaluationContext, Goal, Host, Invocation, Registered, RegistrationError},
    files::InMemory,
};
use pulumi_engine_model::{
    property::{Properties, Property},
    urn::StackIdentity,
};
use pulumi_engine_providers::{builtin, registry::Registry};
use pulumi_engine_state::checkpoint::Checkpoint;
use pulumi_yaml::{
    ResourceType,
    access::{self, TextPart},
    parse, syntax,
};

/// A string that no input contains by chance.
const SECRET: &str = "zq-secret-qz";

/// Evaluates a program. Outputs that depend on a secret must be secret.
pub fn program(text: &str) {
    let Ok(root) = syntax::parse(text) else {
        return;
    };
    let Ok(program) = parse::parse(&root, &Registry::default().names()) else {
        return;
    };
    let stack = StackIdentity {
        organization: "organization".to_owned(),
        project: "demo".to_owned(),
        name: "dev".to_owned(),
    };
    let secret = Property::String(SECRET.to_owned()).into_secret();
    let config = BTreeMap::from([("secret".to_owned(), secret)]);
    let context = EvaluationContext {
        stack: &stack,
        config: &config,
        working_directory: "/program",
        root_directory: "/program",
        files: &InMemory::from([("notes", "hello"), ("site/a", "A")]),
    };
    let evaluated = evaluate::evaluate(&program, &context, &Echo { stack: &stack });
    // `fn::unsecret` reveals it on purpose
    if text.to_ascii_lowercase().contains("unsecret") {
        return;
    }
    for (name, output) in evaluated.outputs.unwrap_or_default() {
        let shown = output.shown().to_string();
        assert!(!shown.contains(SECRET), "output {name} shows a secret");
    }
}

/// Echoes inputs as outputs.
struct Echo<'a> {
    stack: &'a StackIdentity,
}

impl Host for Echo<'_> {
    fn register(&self, goal: Goal) -> Result<Registered, RegistrationError> {
        Ok(Registered {
            urn: self.stack.urn(goal.parent.as_ref(), &goal.kind, &goal.name),
            id: Some("id".to_owned()),
            outputs: if goal.kind == builtin::STASH {
                builtin::created_stash(&goal.inputs)
            } else {
                Properties::new()
            },
            partial: false,
        })
    }

    fn resource_type(&self, token: &str) -> Result<ResourceType, String> {
        builtin::resource_type(token)
    }

    fn function(&self, token: &str) -> Result<(), String> {
        Err(format!("no function {token}"))
    }

    fn invoke(&self, invocation: Invocation) -> Result<Properties, RegistrationError> {
        Err(RegistrationError::Message(format!(
            "no function {}",
            invocation.token
        )))
    }
}

/// Parses a state file, which must survive a round trip.
pub fn state(bytes: &[u8]) {
    let Ok(checkpoint) = Checkpoint::parse(bytes) else {
        return;
    };
    _ = checkpoint.deployment().salt();
    let written = checkpoint.encode().unwrap_or_default();
    let again = Checkpoint::parse(&written).and_then(|again| again.encode());
    assert_eq!(
        again.unwrap_or_default(),
        written,
        "a state changes when it is read"
    );
}

/// Parses an interpolation: literal pieces are not empty, and each reference has a name.
pub fn interpolation(text: &str) {
    _ = access::parse_path(text);
    for part in access::parse(text).unwrap_or_default() {
        match part {
            TextPart::Text(text) => assert!(!text.is_empty(), "an empty piece"),
            TextPart::Access(access) => {
                let steps: String = access.steps.iter().map(ToString::to_string).collect();
                assert!(access.steps.is_empty() || !steps.is_empty());
            }
        }
    }
}
