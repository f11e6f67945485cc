//! Images for the e2e suite: ours, a workspace with an old CLI version, one with Pulumi's CLI, and
//! a shell.
//!
//! The shell and its libraries are those of this machine.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use pko_testkit::pulumi_cli;
use serde_json::json;

use super::{
    TAG, build, contents,
    contents::ImagePrograms,
    oci::{Image, ImageEntry},
    save,
};
use build::Architecture;

const SHELL: &str = "/bin/sh";
/// A version without structured config.
const OLD_VERSION: &str = "v3.197.0";

/// Builds all images of the e2e suite.
pub(crate) fn run(profile: &str, output: &Path) -> anyhow::Result<()> {
    let architecture = Architecture::of_this_machine();
    let architecture = architecture.context("this architecture is not supported")?;
    let programs = build::build_programs(architecture, profile)?;
    let name = architecture.name();
    for (file, image) in [
        ("operator", contents::operator(&programs, name, TAG)),
        ("workspace", contents::workspace(&programs, name, TAG)),
        ("workspace-old", old_workspace(&programs, name)?),
        (
            "workspace-cli",
            cli_workspace(&programs, &pulumi_cli()?, name)?,
        ),
        ("shell", shell(name)?),
    ] {
        save(image.plain(), &output.join(format!("{file}-{name}")), None)?;
    }
    Ok(())
}

/// Pulumi's CLI and the programs beside it, such as its YAML language host.
fn cli_workspace(
    programs: &ImagePrograms,
    pulumi: &Path,
    architecture: &'static str,
) -> anyhow::Result<Image> {
    let mut image = contents::workspace(programs, architecture, TAG);
    "docker.io/local/workspace:cli".clone_into(&mut image.reference);
    image
        .entries
        .retain(|entry| !entry.path.starts_with("usr/bin/"));
    let folder = pulumi.parent().unwrap_or(Path::new("/"));
    let mut libraries = BTreeSet::new();
    for file in
        fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?
    {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if !name.starts_with("pulumi") {
            continue;
        }
        libraries.extend(linked_libraries(&file.path())?);
        let bytes = fs::read(file.path())?;
        let inside = format!("usr/bin/{name}");
        image.entries.push(ImageEntry::file(&inside, 0o755, bytes));
    }
    libraries.extend(linked_libraries(Path::new(SHELL))?);
    libraries.insert(PathBuf::from(SHELL));
    add_files(&mut image.entries, files(&libraries)?);
    Ok(image)
}

/// The engine behind a script that reports an old version.
fn old_workspace(programs: &ImagePrograms, architecture: &'static str) -> anyhow::Result<Image> {
    let mut image = contents::workspace(programs, architecture, OLD_VERSION);
    image.reference = format!("docker.io/local/workspace:{OLD_VERSION}");
    let script = format!(
        "#!{SHELL}\nif [ \"$1\" = version ]; then echo {OLD_VERSION}; else exec pulumi-engine \"$@\"; fi\n"
    );
    let is_link = |entry: &ImageEntry| entry.path == "usr/bin/pulumi";
    image.entries.retain(|entry| !is_link(entry));
    image.entries.push(ImageEntry::file(
        "usr/bin/pulumi",
        0o755,
        script.into_bytes(),
    ));
    add_files(&mut image.entries, shell_files()?);
    Ok(image)
}

fn shell(architecture: &'static str) -> anyhow::Result<Image> {
    let mut entries = vec![ImageEntry::folder("tmp", 0o1777, 0)];
    add_files(&mut entries, shell_files()?);
    Ok(Image {
        reference: "docker.io/local/shell:1".to_owned(),
        architecture,
        config: json!({ "User": "65532:65532", "Cmd": [SHELL], "Env": ["PATH=/bin"] }),
        entries,
        is_plain: true,
    })
}

/// The shell and its libraries.
fn shell_files() -> anyhow::Result<Vec<ImageEntry>> {
    let mut paths = linked_libraries(Path::new(SHELL))?;
    paths.insert(PathBuf::from(SHELL));
    files(&paths)
}

/// Files of this machine at the same paths.
fn files(paths: &BTreeSet<PathBuf>) -> anyhow::Result<Vec<ImageEntry>> {
    let entry = |path: &PathBuf| {
        let bytes = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        let inside = path.display().to_string();
        Ok(ImageEntry::file(
            inside.trim_start_matches('/'),
            0o755,
            bytes,
        ))
    };
    paths.iter().map(entry).collect()
}

/// The libraries of a program. None if it is static.
fn linked_libraries(program: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.context("failed to run ldd")?;
    Ok(parse_ldd(&String::from_utf8_lossy(&output.stdout)))
}

/// The paths in ldd's output: `name => path (address)` or `path (address)`.
fn parse_ldd(listed: &str) -> BTreeSet<PathBuf> {
    let words = listed.split_whitespace();
    words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Adds files and their missing parent folders.
fn add_files(entries: &mut Vec<ImageEntry>, files: Vec<ImageEntry>) {
    let mut known: BTreeSet<String> = entries.iter().map(|entry| entry.path.clone()).collect();
    for file in files {
        for folder in Path::new(&file.path).ancestors().skip(1) {
            let folder = folder.display().to_string();
            if !folder.is_empty() && known.insert(folder.clone()) {
                entries.push(ImageEntry::folder(&folder, 0o755, 0));
            }
        }
        entries.push(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_output_is_parsed() {
        let listed = "\tlinux-vdso.so.1 (0x00007fff)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            parse_ldd(listed),
            [
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
            .map(PathBuf::from)
            .into()
        );
        assert_eq!(parse_ldd("\tnot a dynamic executable\n"), BTreeSet::new());
    }

    #[test]
    fn add_files_creates_parent_folders_once() {
        let mut entries = vec![ImageEntry::folder("usr", 0o755, 0)];
        add_files(
            &mut entries,
            vec![
                ImageEntry::file("usr/lib/a", 0o644, vec![]),
                ImageEntry::file("usr/lib/b", 0o644, vec![]),
            ],
        );
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["usr", "usr/lib", "usr/lib/a", "usr/lib/b"]);
    }
}
