//! The artifact that this operator serves to a workspace, for any address in the Workspace.

use pko_api::{Program, Workspace, auto::v1alpha1::FluxArtifact};

use super::{address, is_published, program_at};

/// The addresses at which this operator serves Programs.
pub trait ProgramAddresses {
    /// The server's address, with or without `http://`.
    fn advertised(&self) -> &str;
    /// The last segment of a generation's address, if addresses must not be guessable.
    fn seal(&self, program: &Program, generation: i64) -> Option<String>;
}

/// The name of the Program that a workspace fetches. A Program of another namespace does not count,
/// because its address must not leak.
#[must_use]
pub fn fetched_program(workspace: &Workspace) -> Option<&str> {
    let fetched = workspace.spec.flux.as_ref()?;
    let (namespace, name, _) = program_at(fetched.url.as_deref()?)?;
    (workspace.metadata.namespace.as_deref() == Some(namespace)).then_some(name)
}

/// The artifact that this operator serves for the Program's generation in a fetched artifact.
///
/// Upstream's operator leaves addresses without a seal, and the digests of its own archives. An
/// operator at another address leaves that address.
#[must_use]
pub fn served_artifact(
    program: &Program,
    fetched: &FluxArtifact,
    addresses: &impl ProgramAddresses,
) -> Option<FluxArtifact> {
    let metadata = &program.metadata;
    let (namespace, name, generation) = program_at(fetched.url.as_deref()?)?;
    let current = metadata.generation?;
    let is_of_program =
        metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name);
    if !is_of_program || generation > current {
        return None;
    }
    let digest = if generation == current {
        if !is_published(program) {
            return None;
        }
        program.status.as_ref()?.artifact.as_ref()?.digest.clone()
    } else {
        fetched.digest.clone()
    };
    let seal = addresses.seal(program, generation);
    let server = addresses.advertised();
    Some(FluxArtifact {
        url: Some(address::url(
            server,
            namespace,
            name,
            generation,
            seal.as_deref(),
        )),
        digest,
        dir: fetched.dir.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Sealed(bool);

    impl ProgramAddresses for Sealed {
        fn advertised(&self) -> &'static str {
            "operator:9090"
        }

        fn seal(&self, _: &Program, generation: i64) -> Option<String> {
            self.0.then(|| format!("seal-{generation}"))
        }
    }

    /// A Program of generation 3.
    fn program(observed: i64) -> Program {
        let time = "2026-01-01T00:00:00Z";
        serde_json::from_value(json!({
            "metadata": { "name": "demo", "namespace": "shop", "generation": 3 },
            "status": {
                "observedGeneration": observed,
                "artifact": {
                    "path": "p", "url": "http://p", "revision": observed.to_string(),
                    "digest": "sha256:ours", "lastUpdateTime": time,
                },
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "Published", "message": "",
                    "observedGeneration": observed, "lastTransitionTime": time,
                }],
            },
        }))
        .unwrap()
    }

    fn fetched(url: &str) -> FluxArtifact {
        serde_json::from_value(json!({ "url": url, "digest": "sha256:stored", "dir": "d" }))
            .unwrap()
    }

    fn served(observed: i64, url: &str, sealed: bool) -> Option<(String, String)> {
        let served = served_artifact(&program(observed), &fetched(url), &Sealed(sealed))?;
        assert_eq!(served.dir.as_deref(), Some("d"));
        Some((served.url.unwrap(), served.digest.unwrap()))
    }

    #[test]
    fn unsealed_address_in_a_workspace_becomes_the_sealed_one() {
        let url = |generation: i64| format!("http://upstream/programs/shop/demo/{generation}");
        let ours = |rest: &str, digest: &str| {
            let url = format!("http://operator:9090/programs/shop/demo/{rest}");
            Some((url, format!("sha256:{digest}")))
        };
        assert_eq!(served(3, &url(3), true), ours("3/seal-3", "ours"));
        assert_eq!(served(3, &url(3), false), ours("3", "ours"));
        assert_eq!(served(3, &url(2), true), ours("2/seal-2", "stored"));
        assert_eq!(served(3, &url(2), false), ours("2", "stored"));
        assert_eq!(served(3, &url(4), true), None, "an old copy of the Program");
        assert_eq!(served(2, &url(3), true), None, "it is not published yet");
        assert_eq!(served(3, "http://flux/a.tar.gz", true), None);
        assert_eq!(served(3, "http://x/programs/shop/other/3", true), None);
    }

    #[test]
    fn program_of_another_namespace_is_none() {
        let workspace = |namespace: &str| -> Workspace {
            serde_json::from_value(json!({
                "metadata": { "name": "w", "namespace": namespace },
                "spec": { "flux": { "url": "http://x/programs/shop/demo/3" } },
            }))
            .unwrap()
        };
        assert_eq!(fetched_program(&workspace("shop")), Some("demo"));
        assert_eq!(fetched_program(&workspace("other")), None);
    }
}
