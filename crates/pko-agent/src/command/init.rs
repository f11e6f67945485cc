//! `agent init`: fetches the source of a workspace.

mod credentials;
mod git;
mod link;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, bail};
use pko_source::{
    Deadline,
    artifact::{self, ArtifactLimits},
};
use serde::Serialize;

use super::bootstrap;
use crate::{args::Init, workspace::mark_source_replaced};

/// For the whole command.
const INIT_TIMEOUT: Duration = Duration::from_mins(15);

pub(crate) fn run(arguments: &Init) -> anyhow::Result<()> {
    if let Some(folder) = &arguments.bootstrap_dir {
        bootstrap::copy_to(folder)?;
    }
    if let (Some(folder), Some(link)) = (&arguments.local_dir, &arguments.workspace_link) {
        // The folder need not exist here: it may be in another container's image.
        link::replace(link, folder)?;
        return mark_source_as_new(link);
    }
    // The command line requires it.
    let target = arguments.target_dir.as_deref();
    let target = target.context("--target-dir is missing")?;
    fetch(arguments, target)?;
    mark_source_as_new(target)?;
    let project = link::project(target, arguments.source_dir.as_deref())?;
    match &arguments.workspace_link {
        Some(link) => link::replace(link, &project),
        None => Ok(()),
    }
}

fn fetch(arguments: &Init, target: &Path) -> anyhow::Result<()> {
    if let (Some(url), Some(digest)) = (&arguments.flux_url, &arguments.flux_digest) {
        let url = address(url, |name| std::env::var(name).ok())?;
        return fetch_artifact(arguments, &url, digest, target);
    }
    if let (Some(name), Some(runtime)) = (&arguments.project_name, &arguments.project_runtime) {
        return write_project(target, name, runtime);
    }
    if let (Some(url), Some(revision)) = (&arguments.git_url, &arguments.git_revision) {
        let url = address(url, |name| std::env::var(name).ok())?;
        return git::fetch(&url, revision, target).context("unable to fetch git source");
    }
    bail!("no source is given; set --git-url, --flux-url, --project-name or --local-dir")
}

/// The address, which may be in a variable: others can read a command line.
fn address(url: &str, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<String> {
    match url.strip_prefix("env:") {
        Some(name @ ("GIT_URL" | "FLUX_URL")) => {
            variable(name).with_context(|| format!("the variable {name} is not set"))
        }
        _ => Ok(url.to_owned()),
    }
}

fn fetch_artifact(arguments: &Init, url: &str, digest: &str, target: &Path) -> anyhow::Result<()> {
    let max_size = max_unpacked_size(&arguments.flux_max_untar_size_bytes)?;
    let url = replace_host(
        url,
        std::env::var("SOURCE_CONTROLLER_LOCALHOST").ok().as_deref(),
    );
    let shown = artifact::redact_url(&url);
    tracing::info!(url = %shown, digest, "flux artifact fetching");
    let request = artifact::ArtifactRequest {
        url: &url,
        digest,
        target,
        limits: ArtifactLimits::for_unpacked(max_size),
        deadline: Deadline::after(INIT_TIMEOUT),
    };
    artifact::fetch(&request).context("unable to fetch flux artifact")?;
    tracing::info!(dir = %target.display(), "flux artifact fetched");
    Ok(())
}

/// In bytes; `None` for no limit.
fn max_unpacked_size(text: &str) -> anyhow::Result<Option<u64>> {
    let number: i64 = text
        .parse()
        .with_context(|| format!("invalid FLUX_MAX_UNTAR_SIZE_BYTES \"{text}\""))?;
    Ok(u64::try_from(number).ok())
}

/// For development outside of the cluster.
fn replace_host(url: &str, host: Option<&str>) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let (_, path) = rest.split_once('/')?;
        Some((scheme, path))
    });
    match (parts, host.filter(|host| !host.is_empty())) {
        (Some((scheme, path)), Some(host)) => format!("{scheme}://{host}/{path}"),
        _ => url.to_owned(),
    }
}

/// Writes a project without a program, which is enough to destroy its stacks.
fn write_project(folder: &Path, name: &str, runtime: &str) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct ProjectFile<'a> {
        name: &'a str,
        runtime: &'a str,
    }
    let text = serde_saphyr::to_string(&ProjectFile { name, runtime })?;
    let write = || {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("Pulumi.yaml"), text)
    };
    write().with_context(|| format!("failed to write the project file in {}", folder.display()))
}

/// Invalidates what `serve` saved about the old source's files.
fn mark_source_as_new(target: &Path) -> anyhow::Result<()> {
    let beside = target.parent().unwrap_or(Path::new("."));
    mark_source_replaced(&beside.join(".pko/config")).context("failed to mark the source as new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_address_may_be_in_a_variable() {
        let variable =
            |name: &str| (name == "GIT_URL").then(|| "https://me:p@git.test/a".to_owned());
        assert_eq!(
            address("env:GIT_URL", variable).unwrap(),
            "https://me:p@git.test/a"
        );
        assert!(address("env:FLUX_URL", variable).is_err());
        for other in ["env:other.git", "https://git.test/a"] {
            assert_eq!(address(other, variable).unwrap(), other);
        }
    }

    #[test]
    fn untar_size_is_parsed() {
        assert_eq!(max_unpacked_size("524288000").unwrap(), Some(524_288_000));
        assert_eq!(max_unpacked_size("0").unwrap(), Some(0));
        assert_eq!(max_unpacked_size("-1").unwrap(), None);
        let error = max_unpacked_size("big").unwrap_err().to_string();
        assert_eq!(error, "invalid FLUX_MAX_UNTAR_SIZE_BYTES \"big\"");
    }

    #[test]
    fn url_host_is_extracted() {
        let url = "http://source-controller.flux-system/a/b.tar.gz";
        assert_eq!(
            replace_host(url, Some("localhost:1")),
            "http://localhost:1/a/b.tar.gz"
        );
        assert_eq!(replace_host(url, Some("")), url);
        assert_eq!(replace_host(url, None), url);
    }

    #[test]
    fn project_file_is_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("workspace");
        write_project(&target, "my: project", "yaml").unwrap();
        let text = fs::read_to_string(target.join("Pulumi.yaml")).unwrap();
        let back: std::collections::BTreeMap<String, String> =
            serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back["name"], "my: project");
        assert_eq!(back["runtime"], "yaml");
    }
}
