//! Builders of objects for tests. They build JSON, so that invalid objects can be built too.

use std::marker::PhantomData;

use serde_json::{Map, Value, json};

/// Builds an object of one kind.
#[derive(Clone, Debug)]
pub struct Builder<K> {
    object: Value,
    kind: PhantomData<K>,
}

/// The kinds, as type arguments of [`Builder`].
pub mod kind {
    #[derive(Clone, Copy, Debug)]
    pub enum Stack {}
    #[derive(Clone, Copy, Debug)]
    pub enum Program {}
    #[derive(Clone, Copy, Debug)]
    pub enum Workspace {}
    #[derive(Clone, Copy, Debug)]
    pub enum Update {}
}

/// Builds a Stack.
///
/// ```
/// use pko_testkit::StackBuilder;
/// use serde_json::json;
///
/// let stack = StackBuilder::new("demo").stack("dev").program("demo").config("size", 3).build();
/// assert_eq!(stack["spec"], json!({
///     "stack": "dev", "programRef": { "name": "demo" }, "config": { "size": 3 },
/// }));
/// ```
pub type StackBuilder = Builder<kind::Stack>;
pub type ProgramBuilder = Builder<kind::Program>;
pub type WorkspaceBuilder = Builder<kind::Workspace>;
pub type UpdateBuilder = Builder<kind::Update>;

impl<K> Builder<K> {
    fn of(api_version: &str, kind: &str, name: &str) -> Self {
        let metadata = json!({ "name": name });
        let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
        Self {
            object,
            kind: PhantomData,
        }
    }

    /// Sets any field. `path` is a JSON pointer. Missing parents are created.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let names: Vec<String> = path
            .split('/')
            .skip(1)
            .map(|name| name.replace("~1", "/").replace("~0", "~"))
            .collect();
        *names.iter().fold(&mut self.object, field) = value.into();
        self
    }

    /// Appends to a list, created if needed. `path` is a JSON pointer.
    #[must_use]
    pub fn push(self, path: &str, value: impl Into<Value>) -> Self {
        let list = self.object.pointer(path).and_then(Value::as_array);
        let mut list = list.cloned().unwrap_or_default();
        list.push(value.into());
        self.set(path, list)
    }

    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.set("/metadata/namespace", namespace)
    }

    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.set(&format!("/metadata/labels/{}", escape(key)), value)
    }

    #[must_use]
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.set(&format!("/metadata/annotations/{}", escape(key)), value)
    }

    #[must_use]
    pub fn finalizer(self, name: &str) -> Self {
        self.push("/metadata/finalizers", name)
    }

    /// Adds a controlling owner, given as an object from the API server.
    #[must_use]
    pub fn owner(self, owner: &Value) -> Self {
        let field = |path: &str| owner.pointer(path).cloned().unwrap_or_default();
        let reference = json!({
            "apiVersion": field("/apiVersion"), "kind": field("/kind"),
            "name": field("/metadata/name"), "uid": field("/metadata/uid"),
            "controller": true, "blockOwnerDeletion": true,
        });
        self.push("/metadata/ownerReferences", reference)
    }

    #[must_use]
    pub fn status(self, status: Value) -> Self {
        self.set("/status", status)
    }

    #[must_use]
    pub fn build(self) -> Value {
        self.object
    }
}

impl Builder<kind::Stack> {
    /// A Stack with an empty spec.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::of("pulumi.com/v1", "Stack", name).set("/spec", json!({}))
    }

    /// The name of the Pulumi stack.
    #[must_use]
    pub fn stack(self, name: &str) -> Self {
        self.set("/spec/stack", name)
    }

    /// The Program that it runs.
    #[must_use]
    pub fn program(self, name: &str) -> Self {
        self.set("/spec/programRef/name", name)
    }

    /// The repository and branch that it runs.
    #[must_use]
    pub fn git(self, repository: &str, branch: &str) -> Self {
        self.set("/spec/projectRepo", repository)
            .set("/spec/branch", branch)
    }

    /// The URL of the state backend.
    #[must_use]
    pub fn backend(self, url: &str) -> Self {
        self.set("/spec/backend", url)
    }

    #[must_use]
    pub fn config(self, key: &str, value: impl Into<Value>) -> Self {
        self.set(&format!("/spec/config/{}", escape(key)), value)
    }

    /// An environment variable that comes from a Secret.
    #[must_use]
    pub fn secret_env(self, variable: &str, secret: &str, key: &str) -> Self {
        let reference = json!({ "type": "Secret", "secret": { "name": secret, "key": key } });
        self.set(&format!("/spec/envRefs/{}", escape(variable)), reference)
    }

    /// A Stack that has to be processed first.
    #[must_use]
    pub fn prerequisite(self, name: &str) -> Self {
        self.push("/spec/prerequisites", json!({ "name": name }))
    }

    #[must_use]
    pub fn destroy_on_finalize(self, wanted: bool) -> Self {
        self.set("/spec/destroyOnFinalize", wanted)
    }
}

impl Builder<kind::Program> {
    /// A Program that does nothing.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::of("pulumi.com/v1", "Program", name).set("/program", json!({}))
    }

    #[must_use]
    pub fn output(self, name: &str, value: impl Into<Value>) -> Self {
        self.set(&format!("/program/outputs/{}", escape(name)), value)
    }

    #[must_use]
    pub fn resource(self, name: &str, resource_type: &str, properties: &Value) -> Self {
        let resource = json!({ "type": resource_type, "properties": properties });
        self.set(&format!("/program/resources/{}", escape(name)), resource)
    }
}

impl Builder<kind::Workspace> {
    /// A Workspace with an empty spec.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::of("auto.pulumi.com/v1alpha1", "Workspace", name).set("/spec", json!({}))
    }

    /// The folder of the image that holds the project.
    #[must_use]
    pub fn local(self, directory: &str) -> Self {
        self.set("/spec/local/dir", directory)
    }

    /// A stack that is set up in it.
    #[must_use]
    pub fn stack(self, name: &str) -> Self {
        self.push("/spec/stacks", json!({ "name": name }))
    }

    /// The image of its pod.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        self.set("/spec/image", image)
    }
}

impl Builder<kind::Update> {
    /// An Update of a stack in a Workspace; `operation` is such as `up` or `destroy`.
    #[must_use]
    pub fn new(name: &str, workspace: &str, stack: &str, operation: &str) -> Self {
        Self::of("auto.pulumi.com/v1alpha1", "Update", name)
            .set("/spec/workspaceName", workspace)
            .set("/spec/stackName", stack)
            .set("/spec/type", operation)
    }
}

/// The field of an object, created if needed. A value that is not an object is replaced.
fn field<'a>(value: &'a mut Value, name: &String) -> &'a mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields.entry(name).or_insert(Value::Null),
        other => other,
    }
}

/// A name as a part of a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builder_escapes_slashes_in_keys() {
        let object = UpdateBuilder::new("u", "w", "dev", "up")
            .label("app.kubernetes.io/name", "x")
            .annotation("a~b/c", "y")
            .build();
        assert_eq!(
            object["metadata"],
            json!({
                "name": "u",
                "labels": { "app.kubernetes.io/name": "x" },
                "annotations": { "a~b/c": "y" },
            })
        );
    }

    #[test]
    fn builder_push_appends() {
        let object = StackBuilder::new("s")
            .prerequisite("a")
            .prerequisite("b")
            .finalizer("f");
        let object = object.build();
        assert_eq!(
            object["spec"]["prerequisites"],
            json!([{ "name": "a" }, { "name": "b" }])
        );
        assert_eq!(object["metadata"]["finalizers"], json!(["f"]));
    }

    #[test]
    fn builder_owner_refers_by_uid() {
        let owner = StackBuilder::new("s").set("/metadata/uid", "1-2").build();
        let object = WorkspaceBuilder::new("w").owner(&owner).build();
        assert_eq!(
            object["metadata"]["ownerReferences"],
            json!([{
                "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "s", "uid": "1-2",
                "controller": true, "blockOwnerDeletion": true,
            }])
        );
    }

    #[test]
    fn builder_accepts_invalid_objects() {
        let object = StackBuilder::new("s")
            .set("/spec/stack", 7)
            .set("/spec/config/a/b", true);
        assert_eq!(
            object.build()["spec"],
            json!({ "stack": 7, "config": { "a": { "b": true } } })
        );
    }
}
