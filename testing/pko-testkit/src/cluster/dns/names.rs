//! The names of Services and of the pods behind headless ones, as Kubernetes' DNS specification has them; pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use super::message::{Answer, Data, Kind, Record};

const ZONE: &str = ".svc.cluster.local";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const NO_ADDRESS: &str = "None";

/// What is known of the cluster.
pub(super) struct Names {
    pub(super) services: Vec<Arc<Service>>,
    pub(super) slices: Vec<Arc<EndpointSlice>>,
}

/// A Service that a name leads to, and the part of the name before it.
struct Place<'a> {
    service: &'a Service,
    spec: &'a ServiceSpec,
    prefix: Vec<&'a str>,
}

impl Names {
    /// What a name has of a kind.
    pub(super) fn answer(&self, name: &str, kind: Kind) -> Answer {
        let Some(place) = self.place(name) else {
            return Answer::NoSuchName;
        };
        let data = match place.prefix.as_slice() {
            [] => self.of_service(&place),
            [port, protocol] if port.starts_with('_') => {
                self.of_port(&place, name, [port, protocol])
            }
            [host] => self.of_host(&place, host),
            _ => Vec::new(),
        };
        if data.is_empty() {
            return Answer::NoSuchName;
        }
        let of_kind = data.into_iter().filter(|data| is_of(data, kind));
        let records = of_kind.map(|data| Record {
            name: name.to_owned(),
            data,
        });
        Answer::Found(records.collect())
    }

    fn place<'a>(&'a self, name: &'a str) -> Option<Place<'a>> {
        let mut labels: Vec<&str> = name.strip_suffix(ZONE)?.split('.').collect();
        let namespace = labels.pop()?;
        let service = labels.pop()?;
        let service = self.services.iter().find(|candidate| {
            let metadata = &candidate.metadata;
            metadata.name.as_deref() == Some(service)
                && metadata.namespace.as_deref() == Some(namespace)
        })?;
        Some(Place {
            service,
            spec: service.spec.as_ref()?,
            prefix: labels,
        })
    }

    /// Its own address, the addresses behind it, or its other name.
    fn of_service(&self, place: &Place<'_>) -> Vec<Data> {
        if let Some(target) = &place.spec.external_name {
            return vec![Data::Cname(target.clone())];
        }
        if !is_headless(place.spec) {
            let addresses = place.spec.cluster_ips.iter().flatten();
            return addresses.filter_map(|address| data(address)).collect();
        }
        let endpoints = self.endpoints(place).map(|(endpoint, _)| endpoint);
        let addresses = endpoints.flat_map(|endpoint| endpoint.addresses.iter());
        addresses.filter_map(|address| data(address)).collect()
    }

    /// A pod behind a headless Service that has a name of its own, as those of StatefulSets do.
    fn of_host(&self, place: &Place<'_>, host: &str) -> Vec<Data> {
        if !is_headless(place.spec) {
            return Vec::new();
        }
        let endpoints = self
            .endpoints(place)
            .filter(|(endpoint, _)| endpoint.hostname.as_deref() == Some(host));
        let addresses = endpoints.flat_map(|(endpoint, _)| endpoint.addresses.iter());
        addresses.filter_map(|address| data(address)).collect()
    }

    /// `_port._protocol.service…`: where a named port is.
    fn of_port(&self, place: &Place<'_>, name: &str, [port, protocol]: [&str; 2]) -> Vec<Data> {
        let service = name.splitn(3, '.').last().unwrap_or_default();
        if is_headless(place.spec) {
            let named = self.endpoints(place).filter_map(|(endpoint, ports)| {
                let found = ports.iter().find(|candidate| {
                    is_called(candidate.name.as_deref(), port)
                        && is_called(candidate.protocol.as_deref(), protocol)
                })?;
                let target = match &endpoint.hostname {
                    Some(host) => format!("{host}.{service}"),
                    None => service.to_owned(),
                };
                let port = u16::try_from(found.port?).ok()?;
                Some(Data::Srv { port, target })
            });
            return named.collect();
        }
        let ports = place.spec.ports.iter().flatten().filter(|candidate| {
            is_called(candidate.name.as_deref(), port)
                && is_called(candidate.protocol.as_deref(), protocol)
        });
        ports
            .filter_map(|found| {
                Some(Data::Srv {
                    port: u16::try_from(found.port).ok()?,
                    target: service.to_owned(),
                })
            })
            .collect()
    }

    /// The endpoints that are ready, with the ports of their slice.
    fn endpoints<'a>(
        &'a self,
        place: &Place<'a>,
    ) -> impl Iterator<Item = (&'a Endpoint, &'a [EndpointPort])> {
        let wanted = &place.service.metadata;
        let slices = self.slices.iter().filter(move |slice| {
            let labels = slice.metadata.labels.as_ref();
            let service = labels.and_then(|labels| labels.get(SERVICE_NAME));
            slice.metadata.namespace == wanted.namespace && service == wanted.name.as_ref()
        });
        slices.flat_map(|slice| {
            let ports = slice.ports.as_deref().unwrap_or_default();
            let ready = slice.endpoints.iter().filter(|endpoint| {
                let conditions = endpoint.conditions.as_ref();
                conditions.and_then(|conditions| conditions.ready) != Some(false)
            });
            ready.map(move |endpoint| (endpoint, ports))
        })
    }
}

fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some(NO_ADDRESS)
}

/// Whether a label such as `_http` or `_tcp` means this name.
fn is_called(name: Option<&str>, label: &str) -> bool {
    let label = label.strip_prefix('_');
    label.is_some_and(|label| name.is_some_and(|name| name.eq_ignore_ascii_case(label)))
}

fn data(address: &str) -> Option<Data> {
    match address.parse().ok()? {
        std::net::IpAddr::V4(address) => Some(Data::A(address)),
        std::net::IpAddr::V6(address) => Some(Data::Aaaa(address)),
    }
}

/// A name that stands for another one has that whatever is asked for.
fn is_of(data: &Data, kind: Kind) -> bool {
    match data {
        Data::A(_) => kind == Kind::A,
        Data::Aaaa(_) => kind == Kind::Aaaa,
        Data::Srv { .. } => kind == Kind::Srv,
        Data::Cname(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn object<T: DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn names() -> Names {
        let service = |name: &str, spec: Value| {
            object(json!({ "metadata": { "name": name, "namespace": "shop" }, "spec": spec }))
        };
        let ports = json!([{ "name": "http", "protocol": "TCP", "port": 80 }]);
        let slice = json!({
            "metadata": { "name": "pods-1", "namespace": "shop", "labels": { SERVICE_NAME: "pods" } },
            "addressType": "IPv4",
            "ports": [{ "name": "http", "protocol": "TCP", "port": 8080 }],
            "endpoints": [
                { "addresses": ["10.244.0.5"], "hostname": "pods-0", "conditions": { "ready": true } },
                { "addresses": ["10.244.0.6"], "hostname": "pods-1", "conditions": {} },
                { "addresses": ["10.244.0.7"], "hostname": "pods-2", "conditions": { "ready": false } },
            ],
        });
        Names {
            services: vec![
                service(
                    "web",
                    json!({ "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": ports }),
                ),
                service(
                    "pods",
                    json!({ "clusterIP": "None", "clusterIPs": ["None"], "ports": ports }),
                ),
                service("elsewhere", json!({ "externalName": "example.test" })),
            ],
            slices: vec![object(slice)],
        }
    }

    fn told(name: &str, kind: Kind) -> Option<Vec<Data>> {
        match names().answer(name, kind) {
            Answer::Found(records) => Some(records.into_iter().map(|record| record.data).collect()),
            Answer::NoSuchName => None,
        }
    }

    fn addresses(last: &[u8]) -> Vec<Data> {
        let address = |last: &u8| Data::A([10, 244, 0, *last].into());
        last.iter().map(address).collect()
    }

    #[test]
    fn a_service_has_its_address_and_no_other_kind() {
        let name = "web.shop.svc.cluster.local";
        assert_eq!(
            told(name, Kind::A),
            Some(vec![Data::A([10, 96, 0, 7].into())])
        );
        assert_eq!(told(name, Kind::Aaaa), Some(vec![]));
    }

    #[test]
    fn a_headless_service_has_the_addresses_of_ready_pods_and_these_have_names() {
        assert_eq!(
            told("pods.shop.svc.cluster.local", Kind::A),
            Some(addresses(&[5, 6]))
        );
        assert_eq!(
            told("pods-1.pods.shop.svc.cluster.local", Kind::A),
            Some(addresses(&[6]))
        );
        assert_eq!(told("pods-2.pods.shop.svc.cluster.local", Kind::A), None);
        assert_eq!(told("pods-0.web.shop.svc.cluster.local", Kind::A), None);
    }

    #[test]
    fn a_named_port_is_found() {
        let of = |name: &str| told(name, Kind::Srv);
        let target = |port, target: &str| Data::Srv {
            port,
            target: target.to_owned(),
        };
        assert_eq!(
            of("_http._tcp.web.shop.svc.cluster.local"),
            Some(vec![target(80, "web.shop.svc.cluster.local")])
        );
        assert_eq!(
            of("_http._tcp.pods.shop.svc.cluster.local"),
            Some(vec![
                target(8080, "pods-0.pods.shop.svc.cluster.local"),
                target(8080, "pods-1.pods.shop.svc.cluster.local")
            ])
        );
        assert_eq!(of("_grpc._tcp.web.shop.svc.cluster.local"), None);
    }

    #[test]
    fn a_service_may_stand_for_another_name() {
        let expected = vec![Data::Cname("example.test".to_owned())];
        assert_eq!(
            told("elsewhere.shop.svc.cluster.local", Kind::A),
            Some(expected)
        );
    }

    #[test]
    fn whatever_else_does_not_exist() {
        for name in [
            "",
            "shop",
            "web",
            "web.shop",
            "web.other.svc.cluster.local",
            "svc.cluster.local",
            ".svc.cluster.local",
            "a.b.web.shop.svc.cluster.local",
            "web.shop.svc.cluster.local.shop.svc.cluster.local",
            "registry.example.test",
        ] {
            assert_eq!(told(name, Kind::A), None, "{name}");
        }
    }
}
