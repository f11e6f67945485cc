//! Recorded responses to list requests, and their replay.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderMap, HeaderValue, Request, Uri, header};
use http_body_util::Full;
use hyper::body::Bytes;

/// A list, as a client asks for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListRequest {
    /// The path and the query.
    target: String,
    /// Whether whole objects are wanted, or their metadata.
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

/// What is known of lists.
#[derive(Default)]
pub(super) struct ListReplays {
    known: BTreeSet<ListRequest>,
    kept: BTreeMap<ListRequest, Bytes>,
    /// The resources whose next list is the kept one.
    replayed: BTreeSet<String>,
    /// The lists that were answered so; a second time the truth is told.
    told: BTreeSet<ListRequest>,
    /// How many answers were old ones, since the beginning.
    pub(super) fault_count: usize,
}

impl ListReplays {
    /// Takes note of a list that is request_info for; gives what is to be said in the place of the truth.
    pub(super) fn meet(&mut self, resource: &str, list: ListRequest) -> Option<Bytes> {
        self.known.insert(list.clone());
        if !self.replayed.contains(resource) || self.told.contains(&list) {
            return None;
        }
        let old = self.kept.get(&list).cloned()?;
        self.told.insert(list);
        self.fault_count += 1;
        Some(old)
    }

    pub(super) fn known(&self) -> Vec<ListRequest> {
        self.known.iter().cloned().collect()
    }

    pub(super) fn keep(&mut self, list: ListRequest, content: Bytes) {
        self.kept.insert(list, content);
    }

    pub(super) fn replay(&mut self, resource: &str) {
        self.replayed.insert(resource.to_owned());
    }

    pub(super) fn clear_faults(&mut self) {
        self.replayed.clear();
        self.told.clear();
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
        assert_eq!(lists.meet("stacks", stacks.clone()), None);
        assert_eq!(lists.known(), std::slice::from_ref(&stacks));
        let old = Bytes::from_static(b"old");
        lists.keep(stacks.clone(), old.clone());
        assert_eq!(lists.meet("stacks", stacks.clone()), None, "not wanted");
        lists.replay("stacks");
        assert_eq!(lists.meet("pods", list("/api/v1/pods")), None);
        assert_eq!(lists.meet("stacks", stacks.clone()), Some(old.clone()));
        assert_eq!(lists.meet("stacks", stacks.clone()), None, "once");
        lists.clear_faults();
        lists.replay("stacks");
        assert_eq!(lists.meet("stacks", stacks), Some(old));
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
