//! What the engine lacks it names, and touches nothing.

use crate::stage::{ENGINE, Stage, finish, real_cli};

const PLAIN: &str = "name: demo\nruntime: yaml\n";

#[test]
fn unsupported_feature_is_named() {
    let cases = [
        (
            "name: demo\nruntime: nodejs\n",
            "runtime \"nodejs\" is not supported by pulumi-engine",
        ),
        (
            "name: demo\nruntime: yaml\nresources: {b: {type: 'aws:s3:Bucket'}}\n",
            "type \"aws:s3:Bucket\" needs a provider plugin",
        ),
        (
            "name: demo\nruntime: yaml\noutputs: {x: {'fn::invoke': {function: f}}}\n",
            "function \"f\" is not supported by pulumi-engine",
        ),
    ];
    for (program, expected) in cases {
        let stage = Stage::new(PLAIN);
        stage.ok(&["stack", "init", "dev"]);
        stage.write("Pulumi.yaml", program);
        let done = stage.up();
        assert_eq!(done.code, Some(1), "{program}");
        assert!(done.stderr.contains(expected), "{program}: {}", done.stderr);
    }
}

#[test]
fn command_lines_are_refused_by_name() {
    let stage = Stage::new(PLAIN);
    stage.ok(&["stack", "init", "dev"]);
    for (words, code, expected) in [
        (
            vec!["up", "--nosuchflag"],
            1,
            "error: unknown flag: --nosuchflag\n",
        ),
        (
            vec!["up", "--yes", "--policy-pack", "x"],
            1,
            "error: flag `--policy-pack` is not supported by pulumi-engine for this command; use an image with Pulumi's CLI\n",
        ),
        (
            vec!["import"],
            1,
            "error: command `import` is not supported by pulumi-engine; use an image with Pulumi's CLI\n",
        ),
        (
            vec!["up"],
            1,
            "error: --yes or --skip-preview must be passed in to proceed when running in non-interactive mode\n",
        ),
        (
            vec!["stack", "init", "x", "--secrets-provider", "bad"],
            1,
            "error: unknown secrets provider type 'bad' (supported values: default,passphrase,awskms,azurekeyvault,gcpkms,hashivault)\n",
        ),
    ] {
        let done = stage.run(&words);
        assert_eq!(
            (done.code, done.stderr.as_str()),
            (Some(code), expected),
            "{words:?}"
        );
    }
    let mut command = stage.command(&["stack", "ls", "--json"]);
    command.env("PULUMI_BACKEND_URL", "https://api.example.invalid");
    let done = finish(command);
    assert_eq!(done.code, Some(3));
    assert_eq!(
        done.stderr,
        "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions\n"
    );
}

#[test]
fn state_directory_that_is_missing_is_refused_as_by_the_cli() {
    for cli in [ENGINE, real_cli()] {
        let stage = Stage::with(cli);
        stage.write("Pulumi.yaml", PLAIN);
        std::fs::remove_dir(stage.path("state")).unwrap();
        let url = format!("file://{}", stage.path("state").display());
        let done = stage.run(&["stack", "init", "dev"]);
        assert_ne!(done.code, Some(0), "{cli}");
        let text = format!("unable to open state directory {url:?}: ");
        assert!(done.stderr.contains(&text), "{cli}: {}", done.stderr);
        let text = "no such file or directory";
        assert!(done.stderr.contains(text), "{cli}: {}", done.stderr);
        assert!(!stage.path("state").exists(), "{cli}");
    }
}

#[test]
fn state_with_unsupported_resources_is_unchanged() {
    let stage = Stage::new(PLAIN);
    stage.ok(&["stack", "init", "dev"]);
    let path = stage.path("state/.pulumi/stacks/demo/dev.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let foreign = r#""resources":[{"urn":"urn:pulumi:dev::demo::aws:s3:Bucket::b","custom":true,"type":"aws:s3:Bucket"}],"metadata""#;
    let text = text.replace("\"metadata\"", foreign);
    std::fs::write(&path, &text).unwrap();
    let done = stage.run(&["destroy", "--yes", "--skip-preview", "--stack", "dev"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("\"aws:s3:Bucket\""), "{done:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn version_names_both() {
    assert_eq!(
        Stage::empty().ok(&["version"]).stdout,
        format!("{}\n", pulumi_engine_model::VERSION)
    );
    assert!(pulumi_engine_model::VERSION.starts_with("v3.259.0+pko."));
}
