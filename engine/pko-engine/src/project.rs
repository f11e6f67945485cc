//! The project file, `Pulumi.yaml`.

use std::path::{Path, PathBuf};

use pulumi_yaml::syntax::{self, Node, SyntaxError};

mod declaration;

pub(crate) use declaration::ConfigDeclaration;

/// Names of project files, in Pulumi's search order.
const FILES: [&str; 3] = ["Pulumi.yaml", "Pulumi.yml", "Pulumi.json"];
/// Names of program files besides the project file.
const PROGRAMS: [&str; 3] = ["Main.yaml", "Main.yml", "Main.json"];

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    /// No project file here or above.
    #[error("no Pulumi.yaml project file found (searching upwards from {0})")]
    NotFound(String),
    /// It cannot be read.
    #[error("failed to read {0}")]
    Access(String, #[source] std::io::Error),
    /// Malformed YAML. The text is that of Pulumi's CLI.
    #[error("could not unmarshal '{path}': invalid YAML file: yaml: {source}", path = .path.display())]
    Malformed { path: PathBuf, source: SyntaxError },
    /// A field is missing or invalid.
    #[error("could not validate the project file: {0}")]
    Invalid(String),
    /// An unsupported feature.
    #[error("{0} is not supported by pulumi-engine")]
    Unsupported(String),
}

/// The fields of a project file that this engine needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Project {
    pub name: String,
    /// Config values it declares, by key as written.
    pub config: Vec<(String, ConfigDeclaration)>,
    /// Directory of the program, relative to the project file.
    pub main: Option<String>,
    /// Directory of stack config files, relative to the project file.
    pub stack_config_directory: Option<String>,
    pub backend: Option<String>,
}

impl Project {
    /// Reads the content of a project file.
    pub(crate) fn parse(root: &Node) -> Result<Self, ProjectError> {
        let text = |key: &str| root.get(key).and_then(Node::as_str).map(ToOwned::to_owned);
        let name = text("name").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| ProjectError::Invalid("it has no name".to_owned()))?;
        check_runtime(root)?;
        let config = root
            .get("config")
            .and_then(Node::entries)
            .unwrap_or_default();
        let config = config
            .iter()
            .map(|(key, value)| {
                let key = key.scalar_text();
                let declaration = declaration::read(&key, value, &name);
                let declaration = declaration.map_err(ProjectError::Invalid)?;
                Ok((key, declaration))
            })
            .collect::<Result<_, ProjectError>>()?;
        Ok(Self {
            name,
            config,
            main: text("main"),
            stack_config_directory: text("stackConfigDir"),
            backend: root
                .get("backend")
                .and_then(|backend| backend.get("url"))
                .and_then(Node::as_str)
                .map(ToOwned::to_owned),
        })
    }
}

fn check_runtime(root: &Node) -> Result<(), ProjectError> {
    let runtime = root.get("runtime");
    let options = runtime
        .and_then(|runtime| runtime.get("options"))
        .and_then(Node::entries);
    let name = runtime.and_then(|runtime| runtime.get("name").unwrap_or(runtime).as_str());
    match name {
        Some("yaml") => {}
        Some(other) => return Err(ProjectError::Unsupported(format!("runtime {other:?}"))),
        None => return Err(ProjectError::Invalid("it has no runtime".to_owned())),
    }
    match options.unwrap_or_default().first() {
        Some((option, _)) => {
            let option = option.scalar_text();
            Err(ProjectError::Unsupported(format!(
                "option {option:?} of runtime \"yaml\""
            )))
        }
        None => Ok(()),
    }
}

/// A project and its file.
#[derive(Debug, Clone)]
pub(crate) struct ProjectFile {
    /// The file.
    pub path: PathBuf,
    pub directory: PathBuf,
    /// Its content as a tree, because the program is usually in the same file.
    pub root: Node,
    /// Its content.
    pub project: Project,
}

impl ProjectFile {
    /// Finds the project file of a directory or its parents.
    pub(crate) fn find(from: &Path) -> Result<Self, ProjectError> {
        let found = from.ancestors().find_map(|directory| {
            FILES
                .map(|name| directory.join(name))
                .into_iter()
                .find(|path| path.is_file())
        });
        let path = found.ok_or_else(|| ProjectError::NotFound(from.display().to_string()))?;
        let root = read(&path)?;
        let project = Project::parse(&root)?;
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self {
            path,
            directory,
            root,
            project,
        })
    }

    /// The path and content of the program.
    pub(crate) fn program(&self) -> Result<(PathBuf, Node), ProjectError> {
        let directory = self.program_directory();
        match PROGRAMS
            .map(|name| directory.join(name))
            .into_iter()
            .find(|path| path.is_file())
        {
            Some(path) => read(&path).map(|node| (path, node)),
            None => Ok((self.path.clone(), self.root.clone())),
        }
    }

    /// The working directory of the program.
    #[must_use]
    pub(crate) fn program_directory(&self) -> PathBuf {
        match self.project.main.as_deref() {
            None | Some("") => self.directory.clone(),
            Some(main) => self.directory.join(main),
        }
    }

    /// The config file of a stack.
    #[must_use]
    pub(crate) fn stack_file(&self, stack: &str) -> PathBuf {
        let directory = self
            .project
            .stack_config_directory
            .as_deref()
            .unwrap_or_default();
        self.directory
            .join(directory)
            .join(format!("Pulumi.{stack}.yaml"))
    }
}

fn read(path: &Path) -> Result<Node, ProjectError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ProjectError::Access(path.display().to_string(), error))?;
    syntax::parse(&text).map_err(|source| ProjectError::Malformed {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_other_runtime_is_rejected() {
        for (text, expected) in [
            (
                "name: a\nruntime: nodejs",
                "runtime \"nodejs\" is not supported by pulumi-engine",
            ),
            (
                "name: a\nruntime: {name: go}",
                "runtime \"go\" is not supported by pulumi-engine",
            ),
            (
                "name: a\nruntime: {name: yaml, options: {compiler: x}}",
                "option \"compiler\" of runtime \"yaml\" is not supported by pulumi-engine",
            ),
            (
                "runtime: yaml",
                "could not validate the project file: it has no name",
            ),
            (
                "name: a",
                "could not validate the project file: it has no runtime",
            ),
        ] {
            let error = Project::parse(&syntax::parse(text).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
