//! `agent init`: puts the source of a workspace where it belongs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use serde::Serialize;

use pko_source::{
    Deadline,
    artifact::{self, Limits},
};

use crate::{args::Init, workspace::source_replaced};

/// For everything together.
const WHOLE: Duration = Duration::from_mins(15);

/// Fetches the one source that the command line names.
pub(crate) fn run(arguments: &Init) -> anyhow::Result<()> {
    if let (Some(url), Some(digest)) = (&arguments.flux_url, &arguments.flux_digest) {
        fetch_artifact(arguments, url, digest)?;
    } else if let (Some(name), Some(runtime)) =
        (&arguments.project_name, &arguments.project_runtime)
    {
        write_project(&arguments.target_dir, name, runtime)?;
    } else {
        bail!("unable to fetch git source: `agent init --git-url` comes in a later version");
    }
    tell_serve(&arguments.target_dir)?;
    match &arguments.workspace_link {
        Some(link) => make_link(arguments, link),
        None => Ok(()),
    }
}

fn fetch_artifact(arguments: &Init, url: &str, digest: &str) -> anyhow::Result<()> {
    let largest = largest_size(&arguments.flux_max_untar_size_bytes)?;
    tracing::info!(digest, "Fetching the artifact");
    let url = replaced_host(
        url,
        std::env::var("SOURCE_CONTROLLER_LOCALHOST").ok().as_deref(),
    );
    let request = artifact::Request {
        url: &url,
        digest,
        target: &arguments.target_dir,
        limits: Limits::of_unpacked(largest),
        deadline: Deadline::after(WHOLE),
    };
    artifact::fetch(&request).context("unable to fetch flux artifact")?;
    tracing::info!(dir = %arguments.target_dir.display(), "The artifact is there");
    Ok(())
}

/// Bytes; nothing if any number is good.
fn largest_size(text: &str) -> anyhow::Result<Option<u64>> {
    let number: i64 = text
        .parse()
        .with_context(|| format!("invalid FLUX_MAX_UNTAR_SIZE_BYTES \"{text}\""))?;
    Ok(u64::try_from(number).ok())
}

/// For developers, whose machine is not in the cluster.
fn replaced_host(url: &str, host: Option<&str>) -> String {
    let parts = url.split_once("://").and_then(|(scheme, rest)| {
        let (_, path) = rest.split_once('/')?;
        Some((scheme, path))
    });
    match (parts, host.filter(|host| !host.is_empty())) {
        (Some((scheme, path)), Some(host)) => format!("{scheme}://{host}/{path}"),
        _ => url.to_owned(),
    }
}

/// A project without a program, which is enough to destroy its stacks.
fn write_project(folder: &Path, name: &str, runtime: &str) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Project<'a> {
        name: &'a str,
        runtime: &'a str,
    }
    let text = serde_saphyr::to_string(&Project { name, runtime })?;
    let write = || {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("Pulumi.yaml"), text)
    };
    write().with_context(|| format!("failed to write the project file in {}", folder.display()))
}

/// What `serve` has noted of the old source's files is not true of the new ones.
fn tell_serve(target: &Path) -> anyhow::Result<()> {
    let beside = target.parent().unwrap_or(Path::new("."));
    source_replaced(&beside.join(".pko/config")).context("failed to mark the source as new")
}

/// Makes or renews the link to the folder with the project.
fn make_link(arguments: &Init, link: &Path) -> anyhow::Result<()> {
    let mut project = arguments.target_dir.clone();
    if let Some(inner) = &arguments.source_dir {
        project = inside(&project, inner)?;
    }
    if link.is_symlink() {
        fs::remove_file(link)?;
    }
    symlink(&project, link).with_context(|| format!("failed to link {}", link.display()))
}

/// A folder inside of the source, and not one that leads out of it.
fn inside(source: &Path, inner: &Path) -> anyhow::Result<PathBuf> {
    let relative: PathBuf = inner
        .components()
        .filter(|part| !matches!(part, std::path::Component::RootDir))
        .collect();
    if relative
        .components()
        .any(|part| matches!(part, std::path::Component::ParentDir))
    {
        bail!("the folder `{}` leads out of the source", inner.display());
    }
    Ok(source.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(largest_size("524288000").unwrap(), Some(524_288_000));
        assert_eq!(largest_size("0").unwrap(), Some(0));
        assert_eq!(largest_size("-1").unwrap(), None);
        let error = largest_size("big").unwrap_err().to_string();
        assert_eq!(error, "invalid FLUX_MAX_UNTAR_SIZE_BYTES \"big\"");
    }

    #[test]
    fn the_host_of_a_url() {
        let url = "http://source-controller.flux-system/a/b.tar.gz";
        assert_eq!(
            replaced_host(url, Some("localhost:1")),
            "http://localhost:1/a/b.tar.gz"
        );
        assert_eq!(replaced_host(url, Some("")), url);
        assert_eq!(replaced_host(url, None), url);
    }

    #[test]
    fn a_project_file_is_written_as_yaml() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("workspace");
        write_project(&target, "my: project", "yaml").unwrap();
        let text = fs::read_to_string(target.join("Pulumi.yaml")).unwrap();
        let back: std::collections::BTreeMap<String, String> =
            serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back["name"], "my: project");
        assert_eq!(back["runtime"], "yaml");
    }

    #[test]
    fn a_folder_inside_of_the_source() {
        let source = Path::new("/share/source");
        assert_eq!(
            inside(source, Path::new("a/b")).unwrap(),
            Path::new("/share/source/a/b")
        );
        assert_eq!(
            inside(source, Path::new("/a")).unwrap(),
            Path::new("/share/source/a")
        );
        assert!(inside(source, Path::new("a/../../b")).is_err());
    }
}
