//! Programs as archives over HTTP: what the status of a Program points to.

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use kube::runtime::reflector::{ObjectRef, Store};
use pko_api::{Decoded, Program};
use pko_core::program::archive;

type Programs = Store<Decoded<Program>>;

/// The routes under `/programs/`.
pub(crate) fn routes(programs: Programs) -> Router {
    let nothing = || async { (StatusCode::BAD_REQUEST, "Program identifier is required.") };
    Router::new()
        .route("/programs/", get(nothing))
        .route("/programs/{*identifier}", get(serve))
        .with_state(programs)
}

async fn serve(State(programs): State<Programs>, Path(identifier): Path<String>) -> Response {
    let parts: Vec<&str> = identifier.split('/').collect();
    let [namespace, name, generation] = parts.as_slice() else {
        let text = "invalid program identifier, unable to locate Program";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    match find(&programs, namespace, name, generation) {
        Ok(bytes) => {
            let headers = [
                (header::CONTENT_TYPE, "application/gzip"),
                (
                    header::CONTENT_DISPOSITION,
                    "attachment; filename=project.tar.gz",
                ),
            ];
            (headers, bytes).into_response()
        }
        Err((status, text)) => (status, text).into_response(),
    }
}

fn find(
    programs: &Programs,
    namespace: &str,
    name: &str,
    wanted: &str,
) -> Result<Vec<u8>, (StatusCode, String)> {
    let not_found = |text: String| (StatusCode::NOT_FOUND, text);
    let stored = programs
        .get(&ObjectRef::new(name).within(namespace))
        .ok_or_else(|| not_found(format!("Program.pulumi.com \"{name}\" not found")))?;
    let program = stored
        .as_result()
        .map_err(|bad| (StatusCode::UNPROCESSABLE_ENTITY, bad.error.to_string()))?;
    let generation = program.metadata.generation.unwrap_or_default();
    if wanted != generation.to_string() {
        let wanted: i64 = wanted.parse().unwrap_or_default();
        return Err(not_found(format!(
            "program {namespace}/{name} with generation {generation} does not match requested generation {wanted}"
        )));
    }
    archive(program)
        .map(|archive| archive.bytes)
        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
