//! Turns a container of a pod into a process of this machine.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;

use super::NodeSettings;
use super::environment::Variables;
use super::expand::expand;
use super::files::Files;
use super::paths::Paths;
use super::process::{Launch, MARK};

/// Where the image of the agent has it.
const AGENT: &str = "/agent";

pub(super) struct ContainerStart<'a> {
    pub(super) container: &'a Container,
    pub(super) pod: &'a str,
    pub(super) address: Ipv4Addr,
    pub(super) settings: &'a NodeSettings,
    pub(super) files: &'a Files,
    pub(super) variables: &'a Variables,
    pub(super) log: PathBuf,
}

impl ContainerStart<'_> {
    /// The process, or nothing if this machine does not have the program.
    pub(super) fn launch(self) -> Option<Launch> {
        let paths = self.files.paths(self.container);
        let mut words = self.words(&paths).into_iter();
        let variables = self.all_variables(&paths);
        let program = self.program(&words.next()?, variables.get("PATH")?)?;
        let mut arguments: Vec<String> = words.collect();
        if is_server(&program, &arguments) {
            arguments.extend(["--host".to_owned(), self.address.to_string()]);
        }
        Some(Launch {
            program,
            arguments,
            variables,
            directory: self.directory(&paths),
            termination_log: self.files.termination_log(&self.container.name),
            log: self.log,
        })
    }

    fn words(&self, paths: &Paths) -> Vec<String> {
        let command = self.container.command.iter().flatten();
        let words = command.chain(self.container.args.iter().flatten());
        let value = |name: &str| self.variables.get(name).cloned();
        let words = words.map(|word| expand(word, value));
        words.map(|word| paths.rewrite(&word)).collect()
    }

    fn program(&self, word: &str, path: &str) -> Option<PathBuf> {
        if word == AGENT {
            return Some(self.settings.agent.clone());
        }
        let named = PathBuf::from(word);
        if named.starts_with(self.files.folder()) || named.is_file() {
            return Some(named);
        }
        let folders = env::split_paths(path);
        let mut candidates = folders.map(|folder| folder.join(&named));
        candidates.find(|candidate| candidate.is_file())
    }

    fn all_variables(&self, paths: &Paths) -> Variables {
        let name = &self.container.name;
        let text = |path: &Path| path.display().to_string();
        let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
        let mut all = Variables::from([
            ("PATH".to_owned(), path.to_string_lossy().into_owned()),
            ("HOME".to_owned(), text(&self.files.home(name))),
            ("TMPDIR".to_owned(), text(&self.files.temporary(name))),
            ("HOSTNAME".to_owned(), self.pod.to_owned()),
        ]);
        all.extend(self.settings.environment.iter().cloned());
        let own = self.variables.iter();
        all.extend(own.map(|(name, value)| (name.clone(), paths.rewrite(value))));
        all.insert(MARK.to_owned(), text(&self.files.container(name)));
        all
    }

    /// Made if it is missing, as container runtimes do.
    fn directory(&self, paths: &Paths) -> PathBuf {
        let wanted = self.container.working_dir.as_deref().unwrap_or_default();
        let directory = PathBuf::from(paths.rewrite(wanted));
        if directory.starts_with(self.files.folder()) {
            // If that fails, so does the start, with a better message
            let _ = fs::create_dir_all(&directory);
            return directory;
        }
        if directory.is_dir() {
            return directory;
        }
        self.files.home(&self.container.name)
    }
}

/// True for an agent that would listen on all addresses, and collide with other pods' agents.
fn is_server(program: &Path, arguments: &[String]) -> bool {
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let is_agent = program.file_name().is_some_and(|name| name == "agent");
    is_agent && has("serve") && !has("--host") && !has("--listen")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn launch(container: Value) -> (PathBuf, Option<Launch>) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::make(folder.path(), "pod").unwrap();
        let container: Container = serde_json::from_value(container).unwrap();
        let settings = NodeSettings {
            agent: "/programs/agent".into(),
            environment: vec![("PKO_PULUMI".to_owned(), "/programs/pulumi".to_owned())],
            namespace: None,
        };
        let variables = Variables::from([
            ("TO".to_owned(), "/share/x".to_owned()),
            ("HOME".to_owned(), "/share".to_owned()),
        ]);
        let preparation = ContainerStart {
            container: &container,
            pod: "demo-0",
            address: Ipv4Addr::new(127, 1, 2, 3),
            settings: &settings,
            files: &files,
            variables: &variables,
            log: folder.path().join("log"),
        };
        (files.folder().to_owned(), preparation.launch())
    }

    fn container(command: &[&str], args: &[&str]) -> Value {
        json!({
            "name": "c", "command": command, "args": args, "workingDir": "/share/workspace",
            "volumeMounts": [{"name": "share", "mountPath": "/share"}],
        })
    }

    #[test]
    fn container_start_rewrites_paths_and_variables() {
        let (folder, found) = launch(container(
            &["/agent", "bootstrap"],
            &["-t", "$(TO)", "$(NO)"],
        ));
        let found = found.unwrap();
        let share = folder.join("volumes/share").display().to_string();
        assert_eq!(found.program, Path::new("/programs/agent"));
        let expected = ["bootstrap", "-t", &format!("{share}/x"), "$(NO)"];
        assert_eq!(found.arguments, expected);
        assert_eq!(found.directory, folder.join("volumes/share/workspace"));
        let variable = |name: &str| found.variables.get(name).cloned().unwrap();
        assert_eq!(variable("TO"), format!("{share}/x"));
        assert_eq!(variable("HOME"), share, "the spec's own wins");
        assert_eq!(variable("HOSTNAME"), "demo-0");
        assert_eq!(variable("PKO_PULUMI"), "/programs/pulumi");
    }

    #[test]
    fn only_serving_agent_gets_host_argument() {
        let table: [(&[&str], bool); 4] = [
            (&["/share/agent", "--", "serve", "-w", "/share"], true),
            (&["/share/agent", "serve", "--host", "::"], false),
            (&["/share/agent", "init"], false),
            (&["sh", "-c", "serve"], false),
        ];
        for (command, expected) in table {
            let arguments = launch(container(command, &[])).1.unwrap().arguments;
            let told = arguments.ends_with(&["--host".to_owned(), "127.1.2.3".to_owned()]);
            assert_eq!(told, expected, "{command:?}");
        }
    }

    #[test]
    fn program_is_found_in_pod_or_on_machine() {
        let program = |word| launch(container(&[word], &[])).1.map(|found| found.program);
        assert!(program("sh").is_some_and(|path| path.is_absolute()));
        assert!(program("/share/not-yet").is_some());
        assert_eq!(program("no-such-program"), None);
        assert_eq!(program("/no/such/program"), None);
        assert!(launch(json!({"name": "c"})).1.is_none());
    }
}
