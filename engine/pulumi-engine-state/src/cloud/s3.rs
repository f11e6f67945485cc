//! S3 and compatible servers: parameters of the URL, the rest from `AWS_*`.

use std::{net::IpAddr, sync::Arc};

use object_store::{ObjectStore, aws::AmazonS3Builder};

use super::{
    Variables,
    address::{Address, AddressError},
    client_options,
    http::Connector,
    retries,
};

const PARAMETERS: [&str; 19] = [
    "accelerate",
    "anonymous",
    "awssdk",
    "disableSSL",
    "disable_https",
    "dualstack",
    "endpoint",
    "fips",
    "hostname_immutable",
    "kmskeyid",
    "profile",
    "rate_limiter_capacity",
    "region",
    "request_checksum_calculation",
    "response_checksum_validation",
    "role",
    "s3ForcePathStyle",
    "ssetype",
    "use_path_style",
];

pub(super) fn open(
    address: &Address,
    variables: Variables<'_>,
) -> Result<Arc<dyn ObjectStore>, AddressError> {
    address.only(&PARAMETERS)?;
    address.refuse(&["accelerate", "dualstack", "fips", "profile", "role"])?;
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&address.bucket)
        .with_client_options(client_options())
        .with_retry(retries())
        .with_http_connector(Connector);
    if let Some(region) = address.get("region") {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = endpoint(address, variables)? {
        let in_path = in_path(address, &endpoint)?;
        let endpoint = if in_path {
            endpoint
        } else {
            with_bucket(&endpoint, &address.bucket)
        };
        builder = builder
            .with_virtual_hosted_style_request(!in_path)
            .with_endpoint(endpoint);
    }
    if address.flag("anonymous")? == Some(true) {
        builder = builder.with_skip_signature(true);
    }
    if let Some(kind) = address.get("ssetype") {
        builder = builder.with_config("aws_server_side_encryption".parse()?, kind);
    }
    if let Some(key) = address.get("kmskeyid") {
        builder = builder.with_config("aws_sse_kms_key_id".parse()?, key);
    }
    Ok(Arc::new(builder.build()?))
}

/// The server, with its scheme; none for Amazon's.
fn endpoint(address: &Address, variables: Variables<'_>) -> Result<Option<String>, AddressError> {
    let plain = match address.flag("disableSSL")? {
        Some(plain) => plain,
        None => address.flag("disable_https")?.unwrap_or(false),
    };
    let given = address.get("endpoint").map(ToOwned::to_owned);
    let given = given
        .or_else(|| variables("AWS_ENDPOINT_URL_S3"))
        .or_else(|| variables("AWS_ENDPOINT_URL"));
    Ok(given.map(|given| {
        let given = given.trim_end_matches('/');
        match given.split_once("://") {
            Some(_) => given.to_owned(),
            None if plain => format!("http://{given}"),
            None => format!("https://{given}"),
        }
    }))
}

/// Whether the bucket is in the path instead of the host name: as configured, and always for an IP
/// address.
fn in_path(address: &Address, endpoint: &str) -> Result<bool, AddressError> {
    let mut asked = false;
    for name in ["s3ForcePathStyle", "use_path_style", "hostname_immutable"] {
        asked |= address.flag(name)?.unwrap_or(false);
    }
    let host = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, host)| host);
    let host = host.split('/').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    Ok(asked || is_address)
}

fn with_bucket(endpoint: &str, bucket: &str) -> String {
    match endpoint.split_once("://") {
        Some((scheme, host)) => format!("{scheme}://{bucket}.{host}"),
        None => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(query: &str) -> Address {
        Address::parse(&format!("s3://states?{query}"))
            .unwrap()
            .unwrap()
    }

    #[test]
    fn s3_endpoint_matches_pulumi() {
        let none = |_: &str| None;
        for (query, expected, path) in [
            ("", None, false),
            ("endpoint=minio:9000", Some("https://minio:9000"), false),
            (
                "endpoint=minio:9000&disableSSL=true&s3ForcePathStyle=true",
                Some("http://minio:9000"),
                true,
            ),
            (
                "endpoint=http://minio:9000/&use_path_style=1",
                Some("http://minio:9000"),
                true,
            ),
            (
                "endpoint=127.0.0.1:9000&disable_https=true",
                Some("http://127.0.0.1:9000"),
                true,
            ),
            (
                "endpoint=https://[::1]:9000",
                Some("https://[::1]:9000"),
                true,
            ),
        ] {
            let address = address(query);
            let found = endpoint(&address, &none).unwrap();
            assert_eq!(found.as_deref(), expected, "{query}");
            if let Some(found) = found {
                assert_eq!(in_path(&address, &found).unwrap(), path, "{query}");
            }
        }
        let variable =
            |name: &str| (name == "AWS_ENDPOINT_URL_S3").then(|| "http://store".to_owned());
        assert_eq!(
            endpoint(&address(""), &variable).unwrap().as_deref(),
            Some("http://store")
        );
        assert_eq!(with_bucket("https://store:1", "b"), "https://b.store:1");
    }

    #[test]
    fn s3_knows_all_parameters_of_pulumi() {
        let none = |_: &str| None;
        let opened = |query: &str| {
            open(&address(query), &none)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        let fine = "region=eu-central-1&endpoint=http://x&s3ForcePathStyle=true&awssdk=v2&ssetype=aws:kms&kmskeyid=k&anonymous=true&request_checksum_calculation=when_required";
        assert_eq!(opened(fine), Ok(()));
        assert!(opened("profile=p").unwrap_err().contains("\"profile\""));
        assert!(
            opened("nonsense=1")
                .unwrap_err()
                .contains("unknown query parameter \"nonsense\"")
        );
        assert!(
            opened("disableSSL=perhaps&endpoint=x")
                .unwrap_err()
                .contains("true or false")
        );
    }
}
