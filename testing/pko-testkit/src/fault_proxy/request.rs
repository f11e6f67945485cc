//! Classifies requests to the API server.

use http::{Method, Uri};

/// A request, as far as faults depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiRequest {
    pub(super) method: Method,
    pub(super) path: String,
    /// Such as `stacks`. Empty for non-resource requests.
    pub(super) resource: String,
    /// Of one object; empty for all of them.
    name: String,
    subresource: String,
    query: String,
}

impl ApiRequest {
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
        let (resource, name, subresource) = resource(uri.path());
        Self {
            method: method.clone(),
            path: uri.path().to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
        }
    }

    pub(super) fn is_watch(&self) -> bool {
        let mut words = self.query.split('&');
        let is_it = words.any(|word| matches!(word, "watch=true" | "watch=1"));
        self.method == Method::GET && is_it
    }

    pub(super) fn is_list(&self) -> bool {
        let is_of_all = !self.resource.is_empty() && self.name.is_empty();
        self.method == Method::GET && is_of_all && !self.is_watch()
    }

    /// True for a change of reconciled state: no lease, no review, no token, no dry run, and no
    /// event unless events count.
    pub(super) fn is_write(&self, with_events: bool) -> bool {
        let methods = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let is_aside = self.resource == "leases"
            || self.resource.ends_with("reviews")
            || self.subresource == "token"
            || (self.resource == "events" && !with_events)
            || self.query.contains("dryRun=All");
        methods.contains(&self.method) && !is_aside
    }
}

/// The resource, the object's name and the subresource of a path.
fn resource(path: &str) -> (&str, &str, &str) {
    let mut words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    let prefix = match words.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return ("", "", ""),
    };
    words.drain(..prefix.min(words.len()));
    // A namespace itself and its own subresources have nothing behind the name that is a resource
    let own = ["status", "finalize"];
    if let [first, _, resource, ..] = words[..]
        && first == "namespaces"
        && !own.contains(&resource)
    {
        words.drain(..2);
    }
    let word = |index: usize| words.get(index).copied().unwrap_or_default();
    (word(0), word(1), word(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_info(method: &str, uri: &str) -> ApiRequest {
        ApiRequest::of(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    fn request_path_is_parsed_into_resource() {
        let table = [
            ("/api/v1/pods", "pods", "", ""),
            ("/api/v1/namespaces/a/pods/b/status", "pods", "b", "status"),
            ("/apis/pulumi.com/v1/namespaces/a/stacks", "stacks", "", ""),
            (
                "/apis/pulumi.com/v1/stacks/b/status",
                "stacks",
                "b",
                "status",
            ),
            ("/api/v1/namespaces", "namespaces", "", ""),
            ("/api/v1/namespaces/a", "namespaces", "a", ""),
            (
                "/api/v1/namespaces/a/finalize",
                "namespaces",
                "a",
                "finalize",
            ),
            ("/apis", "", "", ""),
            ("/version", "", "", ""),
        ];
        for (path, kind, name, part) in table {
            assert_eq!(resource(path), (kind, name, part), "{path}");
        }
    }

    #[test]
    fn list_request_is_a_get_of_all_objects() {
        let stacks = "/apis/pulumi.com/v1/namespaces/a/stacks";
        assert!(request_info("GET", stacks).is_list());
        assert!(request_info("GET", "/api/v1/namespaces/a/pods?limit=100").is_list());
        assert!(!request_info("GET", &format!("{stacks}?watch=true")).is_list());
        assert!(!request_info("GET", &format!("{stacks}/b")).is_list());
        assert!(!request_info("POST", stacks).is_list());
        assert!(!request_info("GET", "/version").is_list());
    }

    #[test]
    fn write_request_excludes_leases_reviews_and_dry_runs() {
        let stack = "/apis/pulumi.com/v1/namespaces/a/stacks/b/status?fieldManager=x";
        let events = "/apis/events.k8s.io/v1/namespaces/a/events";
        let table = [
            ("PATCH", stack, true),
            ("GET", stack, false),
            ("DELETE", "/api/v1/namespaces/a/pods/b", true),
            ("POST", events, false),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
                false,
            ),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                false,
            ),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", false),
            (
                "POST",
                "/api/v1/namespaces/a/serviceaccounts/b/token",
                false,
            ),
            ("POST", "/api/v1/namespaces/a/pods?dryRun=All", false),
        ];
        for (method, uri, expected) in table {
            assert_eq!(
                request_info(method, uri).is_write(false),
                expected,
                "{method} {uri}"
            );
        }
        assert!(request_info("POST", events).is_write(true));
    }

    #[test]
    fn watch_request_is_recognised_by_query() {
        assert!(request_info("GET", "/api/v1/pods?a=b&watch=true").is_watch());
        assert!(request_info("GET", "/api/v1/pods?watch=1&a=b").is_watch());
        assert!(!request_info("GET", "/api/v1/pods?watch=false").is_watch());
        assert!(!request_info("GET", "/api/v1/pods").is_watch());
        assert!(!request_info("DELETE", "/api/v1/pods?watch=true").is_watch());
    }
}
