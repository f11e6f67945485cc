//! Google Cloud Storage, with credentials in the order of Pulumi's CLI.

use std::sync::Arc;

use object_store::{
    ObjectStore,
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
};

use super::{
    Variables,
    address::{Address, AddressError},
    client_options,
    http::Connector,
    retries,
};

pub(super) fn open(
    address: &Address,
    variables: Variables<'_>,
) -> Result<Arc<dyn ObjectStore>, AddressError> {
    address.only(&[
        "access_id",
        "anonymous",
        "private_key_path",
        "universe_domain",
    ])?;
    address.refuse(&["access_id", "private_key_path", "universe_domain"])?;
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(&address.bucket)
        .with_client_options(client_options())
        .with_retry(retries())
        .with_http_connector(Connector);
    let mut anonymous = address.flag("anonymous")?.unwrap_or(false);
    if let Some(host) = variables("STORAGE_EMULATOR_HOST") {
        let url = if host.contains("://") {
            host
        } else {
            format!("http://{host}")
        };
        builder = builder.with_config(GoogleConfigKey::BaseUrl, url);
        anonymous = true;
    }
    if anonymous {
        // the client needs a token for writes even so; any will do, and none is requested
        builder = builder
            .with_skip_signature(true)
            .with_config(GoogleConfigKey::BearerToken, "anonymous");
    } else if let Some(content) = variables("GOOGLE_CREDENTIALS") {
        builder = builder.with_service_account_key(service_account(content)?);
    } else if let Some(token) = variables("GOOGLE_OAUTH_ACCESS_TOKEN") {
        builder = builder.with_config(GoogleConfigKey::BearerToken, token);
    } else if let Some(file) = variables("GOOGLE_APPLICATION_CREDENTIALS") {
        builder = builder.with_application_credentials(file);
    }
    Ok(Arc::new(builder.build()?))
}

/// Credentials as the content of a file instead of its path.
fn service_account(content: String) -> Result<String, AddressError> {
    let parsed: Option<serde_json::Value> = serde_json::from_str(&content).ok();
    let kind = parsed
        .as_ref()
        .and_then(|parsed| parsed.get("type")?.as_str());
    match kind {
        Some("service_account") => Ok(content),
        Some(other) => Err(AddressError::Environment(format!(
            "GOOGLE_CREDENTIALS holds credentials of type {other:?}, and pulumi-engine takes \"service_account\" there; \
             put them into a file and name it in GOOGLE_APPLICATION_CREDENTIALS"
        ))),
        None => Err(AddressError::Environment(
            "unable to parse credentials from $GOOGLE_CREDENTIALS: it must hold the JSON of a service account's key".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gcs_malformed_credentials_report_error() {
        for (content, expected) in [
            ("{", "unable to parse"),
            (r#"{"type":"authorized_user"}"#, "\"authorized_user\""),
        ] {
            let address = Address::parse("gs://states").unwrap().unwrap();
            let variables = |name: &str| (name == "GOOGLE_CREDENTIALS").then(|| content.to_owned());
            let error = open(&address, &variables).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('{'), "{error}");
        }
    }
}
