//! `cargo xtask generate`: files that are generated from the source and committed, so that a diff
//! shows the effect of a change on users.

mod install;
mod merge_keys;
mod proto;
mod rbac;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use pko_api::{admission, crd, manager_policy, requester_policy, schema::CoreTypes};
use pko_testkit::ControlPlane;
use serde_json::Value;
use similar::TextDiff;

use pko_testkit::{
    checkout::{cargo, checkout},
    progress::Step,
};

/// Lines of a diff to print. `git diff` shows the rest after generating.
const SHOWN_LINES: usize = 60;

const CORE_TYPES: &str = "crates/pko-api/openapi/core-v1.json";
const CRDS: &str = "deploy/crds";
const POLICY: &str = "deploy/policies/stacks.yaml";
const POLICIES: &str = "deploy/policies";
const MERGE_KEYS: &str = "crates/pko-core/src/merge/schemas.rs";

#[derive(clap::Args)]
pub(crate) struct GenerateArguments {
    /// Write nothing, and fail if a file is outdated
    #[arg(long)]
    check: bool,
    /// Generate only Rust from the `.proto` files, which needs no API server
    #[arg(long)]
    proto: bool,
}

struct GeneratedFile {
    path: PathBuf,
    text: String,
}

pub(crate) async fn run(arguments: &GenerateArguments) -> anyhow::Result<()> {
    write_or_check(&proto::rust_files()?, arguments.check)?;
    if arguments.proto {
        return Ok(());
    }
    let core_types = [core_types().await?];
    let outdated = outdated_files(&core_types);
    if outdated.is_empty() {
        return write_or_check(&files_from_core_types()?, arguments.check);
    }
    write_or_check(&core_types, arguments.check)?;
    // The other files depend on this file, which is compiled into this executable.
    let again = cargo().args(["xtask", "generate"]).status();
    if !again
        .context("failed to run `cargo xtask generate` again")?
        .success()
    {
        bail!("failed to generate the rest from the new types of Kubernetes");
    }
    Ok(())
}

/// Kubernetes' types, from a real API server.
async fn core_types() -> anyhow::Result<GeneratedFile> {
    let step = Step::begin("asking a Kubernetes API server for its types");
    let plane = ControlPlane::builder()
        .start()
        .await
        .context("failed to start a control plane")?;
    let client = plane.client()?;
    let version = client.apiserver_version().await?.git_version;
    let document: Value = client
        .request(http::Request::get("/openapi/v3/api/v1").body(Vec::new())?)
        .await?;
    let types = CoreTypes::from_document(&version, &document).map_err(|name| {
        anyhow::anyhow!("the API server's OpenAPI document has no type `{name}`")
    })?;
    println!("  Kubernetes {version}, {}", step.elapsed());
    let text = serde_json::to_string_pretty(&types)? + "\n";
    Ok(GeneratedFile {
        path: CORE_TYPES.into(),
        text,
    })
}

fn files_from_core_types() -> anyhow::Result<Vec<GeneratedFile>> {
    let types = CoreTypes::committed();
    let merge_keys = GeneratedFile {
        path: MERGE_KEYS.into(),
        text: merge_keys::rust_table(&types.version, &types.schemas)?,
    };
    let crds = crd::all();
    let others = rbac::files()
        .into_iter()
        .chain([merge_keys, policy_file()?, install::file()?])
        .chain(optional_policy_files()?);
    crds.iter().map(crd_file).chain(others.map(Ok)).collect()
}

fn crd_file(crd: &Value) -> anyhow::Result<GeneratedFile> {
    let text = |pointer: &str| {
        crd.pointer(pointer)
            .and_then(Value::as_str)
            .with_context(|| format!("a CRD has no {pointer}"))
    };
    let name = format!(
        "{}_{}.yaml",
        text("/spec/group")?,
        text("/spec/names/plural")?
    );
    let yaml = serde_saphyr::to_string(crd)?;
    let text = format!("# Made by `cargo xtask generate` from crates/pko-api.\n{yaml}");
    Ok(GeneratedFile {
        path: Path::new(CRDS).join(name),
        text,
    })
}

fn policy_file() -> anyhow::Result<GeneratedFile> {
    let policy = serde_saphyr::to_string(&admission::policy())?;
    let binding = serde_saphyr::to_string(&admission::binding())?;
    let text = format!(
        "# Made by `cargo xtask generate` from crates/pko-api/src/admission.rs: warnings about Stacks, as they are written.\n\
         {policy}---\n{binding}"
    );
    Ok(GeneratedFile {
        path: POLICY.into(),
        text,
    })
}

/// Policies that are not part of the installation.
fn optional_policy_files() -> anyhow::Result<[GeneratedFile; 2]> {
    let requesters = [requester_policy::policy(), requester_policy::binding()];
    let manager = [manager_policy::policy(), manager_policy::binding()];
    Ok([
        optional_policy_file(
            "requesters",
            "denies Stacks and Workspaces whose requester may not run their pod",
            &requesters,
        )?,
        optional_policy_file(
            "manager",
            "denies the manager what it never does, for a manager that was taken over",
            &manager,
        )?,
    ])
}

fn optional_policy_file(
    name: &str,
    purpose: &str,
    [policy, binding]: &[Value; 2],
) -> anyhow::Result<GeneratedFile> {
    let path = Path::new(POLICIES).join(format!("{name}.yaml"));
    let (policy, binding) = (
        serde_saphyr::to_string(policy)?,
        serde_saphyr::to_string(binding)?,
    );
    let text = format!(
        "# Made by `cargo xtask generate` from crates/pko-api: {purpose}.\n\
         # Optional: kubectl apply -f {}\n{policy}---\n{binding}",
        path.display()
    );
    Ok(GeneratedFile { path, text })
}

fn outdated_files(files: &[GeneratedFile]) -> Vec<&GeneratedFile> {
    let is_outdated = |file: &&GeneratedFile| on_disk(file) != file.text;
    files.iter().filter(is_outdated).collect()
}

fn on_disk(file: &GeneratedFile) -> String {
    fs::read_to_string(checkout().join(&file.path)).unwrap_or_default()
}

/// Writes outdated files, or fails if there are any.
fn write_or_check(files: &[GeneratedFile], check: bool) -> anyhow::Result<()> {
    let outdated = outdated_files(files);
    for file in &outdated {
        if check {
            println!("{}", difference(file));
        } else {
            write(file)?;
        }
    }
    match (outdated.len(), check) {
        (0, _) => println!("generated files: {} up to date", files.len()),
        (count, false) => println!("generated files: {count} written"),
        (count, true) => {
            bail!(
                "{count} generated files are outdated; run `cargo xtask generate` and commit them"
            )
        }
    }
    Ok(())
}

fn write(file: &GeneratedFile) -> anyhow::Result<()> {
    let path = checkout().join(&file.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&path, &file.text).with_context(|| format!("failed to write {}", file.path.display()))
}

fn difference(file: &GeneratedFile) -> String {
    let name = file.path.display().to_string();
    let old = on_disk(file);
    let diff = TextDiff::from_lines(&old, &file.text);
    let unified = diff.unified_diff().header(&name, "generated").to_string();
    let shown: Vec<&str> = unified.lines().take(SHOWN_LINES).collect();
    let rest = unified.lines().count().saturating_sub(SHOWN_LINES);
    let more = if rest > 0 {
        format!("\n… and {rest} more lines")
    } else {
        String::new()
    };
    shown.join("\n") + &more
}
