//! The API server's audit log: requests by user, verb and resource.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request as HttpRequest;
use serde::Deserialize;

use crate::control_plane::{AccessError, ControlPlane};
use crate::eventually::{TimedOut, eventually};

/// Marks requests that are made only to find out whether the log has caught up.
const BARRIER: &str = "/version?pko-testkit-barrier=";
static BARRIERS: AtomicUsize = AtomicUsize::new(0);

/// A position in the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditPosition(u64);

impl AuditPosition {
    /// The beginning of the log.
    pub const START: Self = Self(0);
}

impl ControlPlane {
    /// The position after every request that has been answered by now.
    pub async fn audit_position(&self) -> Result<AuditPosition, AuditError> {
        self.wait_for_audit_log().await?;
        Ok(AuditPosition(std::fs::metadata(self.audit_log())?.len()))
    }

    /// The requests since a position, including every one that has been answered by now.
    ///
    /// A request is logged when its response is complete, a watch when it has begun: each once.
    /// Health probes are not logged.
    pub async fn requests_since(&self, mark: AuditPosition) -> Result<AuditedRequests, AuditError> {
        self.wait_for_audit_log().await?;
        AuditedRequests::parse(&read_from(&self.audit_log(), mark)?)
    }

    /// Makes a recognizable request and waits until it is logged. Earlier requests are logged by
    /// then.
    async fn wait_for_audit_log(&self) -> Result<(), AuditError> {
        let start = AuditPosition(std::fs::metadata(self.audit_log())?.len());
        let uri = format!("{BARRIER}{}", BARRIERS.fetch_add(1, Ordering::Relaxed));
        let request = HttpRequest::get(&uri)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        self.client()?.request_text(request).await?;
        let line = format!("\"requestURI\":\"{uri}\"");
        eventually("the audit log to catch up", async || {
            let text = read_from(&self.audit_log(), start).map_err(|error| error.to_string())?;
            text.contains(&line)
                .then_some(())
                .ok_or_else(|| format!("no {uri} in it"))
        })
        .await?;
        Ok(())
    }
}

fn read_from(path: &Path, mark: AuditPosition) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(mark.0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// One request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedRequest {
    pub user: String,
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`. For
    /// non-resource requests, the HTTP method in lowercase.
    pub verb: String,
    /// Such as `pods`, `stacks.pulumi.com` or `stacks.pulumi.com/status`. For non-resource
    /// requests, the path.
    pub resource: String,
    pub namespace: String,
    /// Empty for requests without an object.
    pub name: String,
    /// The HTTP status of the response.
    pub code: u16,
    /// Path and query as sent.
    pub uri: String,
}

/// Requests in the order of their answers.
#[derive(Clone, Debug, Default)]
pub struct AuditedRequests(Vec<AuditedRequest>);

impl AuditedRequests {
    /// Parses an audit log. An unfinished last line is ignored.
    pub fn parse(log: &str) -> Result<Self, AuditError> {
        let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let mut requests = Vec::new();
        for line in complete.lines().filter(|line| !line.is_empty()) {
            let record: AuditEvent = serde_json::from_str(line)?;
            if record.counts() {
                requests.push(record.into());
            }
        }
        Ok(Self(requests))
    }

    pub fn iter(&self) -> impl Iterator<Item = &AuditedRequest> {
        self.0.iter()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the requests that meet a condition.
    #[must_use]
    pub fn only(mut self, condition: impl FnMut(&AuditedRequest) -> bool) -> Self {
        self.0.retain(condition);
        self
    }

    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.only(|request| request.user == user)
    }

    #[must_use]
    pub fn writes(self) -> Self {
        self.only(|request| !matches!(request.verb.as_str(), "get" | "list" | "watch"))
    }

    #[must_use]
    pub fn counts(&self) -> RequestCounts {
        let mut counts = BTreeMap::new();
        for AuditedRequest {
            user,
            verb,
            resource,
            ..
        } in &self.0
        {
            *counts
                .entry((user.clone(), verb.clone(), resource.clone()))
                .or_default() += 1;
        }
        RequestCounts(counts)
    }

    #[must_use]
    pub fn count(&self, user: &str, verb: &str, resource: &str) -> usize {
        let wanted = |request: &&AuditedRequest| {
            request.user == user && request.verb == verb && request.resource == resource
        };
        self.0.iter().filter(wanted).count()
    }
}

/// The number of requests by user, verb and resource. Displays as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestCounts(pub BTreeMap<(String, String, String), usize>);

impl fmt::Display for RequestCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: fn(&(String, String, String)) -> &String| {
            self.0
                .keys()
                .map(|key| column(key).chars().count())
                .max()
                .unwrap_or_default()
        };
        let (users, verbs) = (width(|key| &key.0), width(|key| &key.1));
        for ((user, verb, resource), count) in &self.0 {
            writeln!(
                formatter,
                "{count:>6}  {user:users$}  {verb:verbs$}  {resource}"
            )?;
        }
        Ok(())
    }
}

/// The used fields of a log line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectReference>,
    response_status: Option<ResponseStatus>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectReference {
    resource: String,
    subresource: String,
    api_group: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl AuditEvent {
    fn counts(&self) -> bool {
        let stage = if self.verb == "watch" {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        // A denied watch never starts
        let refused_watch = self.verb == "watch"
            && self.stage == "ResponseComplete"
            && self
                .response_status
                .as_ref()
                .is_some_and(|status| status.code >= 400);
        (self.stage == stage || refused_watch) && !self.uri.starts_with(BARRIER)
    }
}

impl From<AuditEvent> for AuditedRequest {
    fn from(record: AuditEvent) -> Self {
        let path = record.uri.split('?').next().unwrap_or_default().to_owned();
        let reference = record.object_ref.unwrap_or_default();
        Self {
            resource: if reference.resource.is_empty() {
                path
            } else {
                reference.full_name()
            },
            user: record.user.username,
            user_agent: record.user_agent,
            verb: record.verb,
            namespace: reference.namespace,
            name: reference.name,
            code: record
                .response_status
                .map(|status| status.code)
                .unwrap_or_default(),
            uri: record.uri,
        }
    }
}

impl ObjectReference {
    fn full_name(&self) -> String {
        let group = Some(&self.api_group).filter(|group| !group.is_empty());
        let subresource = Some(&self.subresource).filter(|name| !name.is_empty());
        format!(
            "{}{}{}",
            self.resource,
            group.map(|group| format!(".{group}")).unwrap_or_default(),
            subresource
                .map(|name| format!("/{name}"))
                .unwrap_or_default(),
        )
    }
}

#[derive(thiserror::Error)]
pub enum AuditError {
    #[error("failed to read the audit log")]
    Read(#[from] io::Error),
    #[error("failed to parse the audit log")]
    Parse(#[from] serde_json::Error),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("failed to ask the API server")]
    Ask(#[from] kube::Error),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
}

crate::error_text::debug_is_text!(AuditError);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(stage: &str, user: &str, verb: &str, resource: [&str; 3], code: u16) -> String {
        let [group, resource, subresource] = resource;
        let record = json!({
            "stage": stage, "verb": verb, "requestURI": "/apis/x?watch=1",
            "user": { "username": user },
            "objectRef": { "apiGroup": group, "resource": resource, "subresource": subresource },
            "responseStatus": { "code": code },
        });
        format!("{record}\n")
    }

    #[test]
    fn audit_log_counts_each_request_once_in_order() {
        let stack = ["pulumi.com", "stacks", ""];
        let log = [
            line(
                "ResponseComplete",
                "operator",
                "patch",
                ["pulumi.com", "stacks", "status"],
                200,
            ),
            line("ResponseStarted", "operator", "watch", stack, 200),
            line("ResponseComplete", "operator", "watch", stack, 200),
            line(
                "ResponseComplete",
                "operator",
                "watch",
                ["", "secrets", ""],
                403,
            ),
            line("ResponseComplete", "admin", "create", ["", "pods", ""], 201),
            line("ResponseComplete", "admin", "create", ["", "pods", ""], 409),
        ]
        .concat();
        let requests = AuditedRequests::parse(&log).unwrap();
        assert_eq!(
            requests.counts().to_string(),
            "     2  admin     create  pods\n\
             \x20    1  operator  patch   stacks.pulumi.com/status\n\
             \x20    1  operator  watch   secrets\n\
             \x20    1  operator  watch   stacks.pulumi.com\n"
        );
        assert_eq!(requests.count("admin", "create", "pods"), 2);
        assert_eq!(requests.clone().by_user("operator").writes().len(), 1);
        assert_eq!(requests.only(|request| request.code == 409).len(), 1);
    }

    #[test]
    fn non_resource_request_is_named_by_path() {
        let log = r#"{"stage":"ResponseComplete","verb":"get","requestURI":"/apis?a=b","user":{"username":"u"}}
            {"stage":"ResponseComplete","verb":"get","requestURI":"/version?pko-testkit-barrier=3","user":{"username":"u"}}
            "#;
        let requests = AuditedRequests::parse(log).unwrap();
        let resources: Vec<&str> = requests.iter().map(|request| &*request.resource).collect();
        assert_eq!(resources, ["/apis"]);
    }

    #[test]
    fn unfinished_audit_line_is_ignored() {
        let log = line("ResponseComplete", "u", "get", ["", "pods", ""], 200);
        assert_eq!(
            AuditedRequests::parse(&format!("{log}{{\"stage\":"))
                .unwrap()
                .len(),
            1
        );
        assert!(AuditedRequests::parse("{\"stage\":").unwrap().is_empty());
    }
}
