//! Recorded responses to list requests, and their replay.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderMap, HeaderValue, Request, Uri, header};
use http_body_util::Full;
use hyper::body::Bytes;

/// A list request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListRequest {
    /// The path and the query.
    target: String,
    /// Distinguishes whole objects from their metadata.
    accept: String,
}

impl ListRequest {
    pub(super) fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let accept = headers.get(header::ACCEPT).map(HeaderValue::to_str);
        let accept = accept.and_then(Result::ok).unwrap_or("application/json");
        Self {
            target: uri.to_string(),
            accept: accept.to_owned(),
        }
    }

    /// The same question once more.
    pub(super) fn request(&self) -> http::Result<Request<Full<Bytes>>> {
        Request::get(&self.target)
            .header(header::HOST, "127.0.0.1")
            .header(header::ACCEPT, &self.accept)
            .body(Full::default())
    }
}

#[derive(Default)]
pub(super) struct ListReplays {
    requested: BTreeSet<ListRequest>,
    recorded: BTreeMap<ListRequest, Bytes>,
    /// The resources whose next list is the recorded one.
    replayed: BTreeSet<String>,
    /// The lists that were replayed. Each is replayed once.
    replayed_once: BTreeSet<ListRequest>,
    /// How many answers were old ones, since the beginning.
    pub(super) fault_count: usize,
}

impl ListReplays {
    /// Remembers a requested list. Returns the recording if it is to be replayed.
    pub(super) fn observe(&mut self, resource: &str, list: ListRequest) -> Option<Bytes> {
        self.requested.insert(list.clone());
        if !self.replayed.contains(resource) || self.replayed_once.contains(&list) {
            return None;
        }
        let old = self.recorded.get(&list).cloned()?;
        self.replayed_once.insert(list);
        self.fault_count += 1;
        Some(old)
    }

    pub(super) fn requests(&self) -> Vec<ListRequest> {
        self.requested.iter().cloned().collect()
    }

    pub(super) fn record(&mut self, list: ListRequest, content: Bytes) {
        self.recorded.insert(list, content);
    }

    pub(super) fn replay(&mut self, resource: &str) {
        self.replayed.insert(resource.to_owned());
    }

    pub(super) fn clear_faults(&mut self) {
        self.replayed.clear();
        self.replayed_once.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(target: &str) -> ListRequest {
        ListRequest::of(&target.parse().unwrap(), &HeaderMap::new())
    }

    #[test]
    fn recorded_list_is_replayed_once() {
        let mut lists = ListReplays::default();
        let stacks = list("/apis/pulumi.com/v1/stacks?limit=100");
        assert_eq!(lists.observe("stacks", stacks.clone()), None);
        assert_eq!(lists.requests(), std::slice::from_ref(&stacks));
        let old = Bytes::from_static(b"old");
        lists.record(stacks.clone(), old.clone());
        assert_eq!(lists.observe("stacks", stacks.clone()), None, "not wanted");
        lists.replay("stacks");
        assert_eq!(lists.observe("pods", list("/api/v1/pods")), None);
        assert_eq!(lists.observe("stacks", stacks.clone()), Some(old.clone()));
        assert_eq!(lists.observe("stacks", stacks.clone()), None, "once");
        lists.clear_faults();
        lists.replay("stacks");
        assert_eq!(lists.observe("stacks", stacks), Some(old));
        assert_eq!(lists.fault_count, 2);
    }

    #[test]
    fn metadata_list_is_recorded_separately() {
        let mut headers = HeaderMap::new();
        let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let target = "/api/v1/configmaps?limit=500";
        let metadata = ListRequest::of(&target.parse().unwrap(), &headers);
        assert_ne!(metadata, list(target));
        let request = metadata.request().unwrap();
        assert_eq!(request.uri(), target);
        assert_eq!(request.headers()[header::ACCEPT], accept);
    }
}
