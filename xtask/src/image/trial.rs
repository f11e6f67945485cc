//! Images for tests alone, beside those for everybody: a workspace whose CLI says that it is old, and a shell. Does
//! I/O: reads this machine's shell and the libraries that it needs.

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
    contents::Programs,
    oci::{Entry, Image},
    save,
};
use build::Architecture;

/// The shell of this machine; its words are those that any image's would understand.
const SHELL: &str = "/bin/sh";
/// A version that knows no structured config, as the CLI says it.
const OLD_VERSION: &str = "v3.197.0";

/// Makes all images that the e2e suite needs, in a folder.
pub(crate) fn run(profile: &str, output: &Path) -> anyhow::Result<()> {
    let architecture = Architecture::of_this_machine();
    let architecture = architecture.context("there is no image for such a machine")?;
    let programs = build::programs(architecture, profile)?;
    let name = architecture.name();
    for (file, image) in [
        ("operator", contents::operator(&programs, name, TAG)),
        ("workspace", contents::workspace(&programs, name, TAG)),
        ("workspace-old", old_workspace(&programs, name)?),
        (
            "workspace-cli",
            pulumis_workspace(&programs, &pulumi_cli()?, name)?,
        ),
        ("shell", shell(name)?),
    ] {
        save(image.plain(), &output.join(format!("{file}-{name}")), None)?;
    }
    Ok(())
}

/// Pulumi's own CLI, with what is beside it: its host for YAML programs, most of all.
fn pulumis_workspace(
    programs: &Programs,
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
        libraries.extend(needed(&file.path())?);
        let bytes = fs::read(file.path())?;
        let inside = format!("usr/bin/{name}");
        image.entries.push(Entry::file(&inside, 0o755, bytes));
    }
    libraries.extend(needed(Path::new(SHELL))?);
    libraries.insert(PathBuf::from(SHELL));
    add(&mut image.entries, files(&libraries)?);
    Ok(image)
}

/// The engine behind a script that answers for its version.
fn old_workspace(programs: &Programs, architecture: &'static str) -> anyhow::Result<Image> {
    let mut image = contents::workspace(programs, architecture, OLD_VERSION);
    image.reference = format!("docker.io/local/workspace:{OLD_VERSION}");
    let script = format!(
        "#!{SHELL}\nif [ \"$1\" = version ]; then echo {OLD_VERSION}; else exec pulumi-engine \"$@\"; fi\n"
    );
    let is_link = |entry: &Entry| entry.path == "usr/bin/pulumi";
    image.entries.retain(|entry| !is_link(entry));
    image
        .entries
        .push(Entry::file("usr/bin/pulumi", 0o755, script.into_bytes()));
    add(&mut image.entries, shell_files()?);
    Ok(image)
}

/// A shell, and nothing else.
fn shell(architecture: &'static str) -> anyhow::Result<Image> {
    let mut entries = vec![Entry::folder("tmp", 0o1777, 0)];
    add(&mut entries, shell_files()?);
    Ok(Image {
        reference: "docker.io/local/shell:1".to_owned(),
        architecture,
        config: json!({ "User": "65532:65532", "Cmd": [SHELL], "Env": ["PATH=/bin"] }),
        entries,
        is_plain: true,
    })
}

/// The shell and the libraries that it is linked with, where it expects them.
fn shell_files() -> anyhow::Result<Vec<Entry>> {
    let mut paths = needed(Path::new(SHELL))?;
    paths.insert(PathBuf::from(SHELL));
    files(&paths)
}

/// Files of this machine, under the same paths.
fn files(paths: &BTreeSet<PathBuf>) -> anyhow::Result<Vec<Entry>> {
    let entry = |path: &PathBuf| {
        let bytes = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        let inside = path.display().to_string();
        Ok(Entry::file(inside.trim_start_matches('/'), 0o755, bytes))
    };
    paths.iter().map(entry).collect()
}

/// The libraries that a program is linked with; none if it is static.
fn needed(program: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.context("failed to run ldd")?;
    Ok(libraries(&String::from_utf8_lossy(&output.stdout)))
}

/// The paths in what ldd says: `name => path (address)`, or `path (address)`.
fn libraries(listed: &str) -> BTreeSet<PathBuf> {
    let words = listed.split_whitespace();
    words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Adds files, and those of their folders that are not there yet.
fn add(entries: &mut Vec<Entry>, files: Vec<Entry>) {
    let mut known: BTreeSet<String> = entries.iter().map(|entry| entry.path.clone()).collect();
    for file in files {
        for folder in Path::new(&file.path).ancestors().skip(1) {
            let folder = folder.display().to_string();
            if !folder.is_empty() && known.insert(folder.clone()) {
                entries.push(Entry::folder(&folder, 0o755, 0));
            }
        }
        entries.push(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_in_what_ldd_says() {
        let listed = "\tlinux-vdso.so.1 (0x00007fff)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(listed),
            [
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
            .map(PathBuf::from)
            .into()
        );
        assert_eq!(libraries("\tnot a dynamic executable\n"), BTreeSet::new());
    }

    #[test]
    fn folders_come_with_their_files_once() {
        let mut entries = vec![Entry::folder("usr", 0o755, 0)];
        add(
            &mut entries,
            vec![
                Entry::file("usr/lib/a", 0o644, vec![]),
                Entry::file("usr/lib/b", 0o644, vec![]),
            ],
        );
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["usr", "usr/lib", "usr/lib/a", "usr/lib/b"]);
    }
}
