//! Azure Blob Storage, with the variables of Pulumi's CLI, and workload identity.

use std::sync::Arc;

use object_store::{
    ObjectStore,
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
};

use super::{
    Variables,
    address::{Address, AddressError},
    client_options,
    http::Connector,
    retries,
};

const DOMAIN: &str = "blob.core.windows.net";

pub(super) fn open(
    address: &Address,
    variables: Variables<'_>,
) -> Result<Arc<dyn ObjectStore>, AddressError> {
    address.only(&["cdn", "domain", "localemu", "protocol", "storage_account"])?;
    address.refuse(&["cdn"])?;
    let service = AccountService::find(address, variables)?;
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(&address.bucket)
        .with_client_options(client_options())
        .with_retry(retries())
        .with_http_connector(Connector)
        .with_account(&service.account);
    if let Some(endpoint) = service.endpoint() {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(key) = service.key {
        builder = builder.with_access_key(key);
    } else if let Some(token) = variables("AZURE_STORAGE_SAS_TOKEN") {
        builder = builder.with_config(AzureConfigKey::SasKey, token.trim_start_matches('?'));
    }
    Ok(Arc::new(builder.build()?))
}

struct AccountService {
    account: String,
    key: Option<String>,
    domain: String,
    protocol: String,
    emulator: bool,
}

impl AccountService {
    fn find(address: &Address, variables: Variables<'_>) -> Result<Self, AddressError> {
        let connection = variables("AZURE_STORAGE_CONNECTION_STRING")
            .or_else(|| variables("AZURE_STORAGEBLOB_CONNECTIONSTRING"))
            .unwrap_or_default();
        let connected = |name: &str| {
            let parts = connection
                .split(';')
                .filter_map(|part| part.split_once('='));
            parts
                .filter(|(key, _)| *key == name)
                .map(|(_, value)| value.to_owned())
                .next()
        };
        let account = address.get("storage_account").map(ToOwned::to_owned);
        let account = account
            .or_else(|| variables("AZURE_STORAGE_ACCOUNT"))
            .or_else(|| connected("AccountName"))
            .ok_or_else(|| AddressError::Environment(
                "no storage account: set AZURE_STORAGE_ACCOUNT, or write azblob://CONTAINER?storage_account=ACCOUNT".to_owned(),
            ))?;
        let given = |parameter: &str, variable: &str| {
            address
                .get(parameter)
                .map(ToOwned::to_owned)
                .or_else(|| variables(variable))
        };
        let protocol = given("protocol", "AZURE_STORAGE_PROTOCOL")
            .or_else(|| connected("DefaultEndpointsProtocol"));
        let protocol = protocol.unwrap_or_else(|| "https".to_owned());
        if protocol != "http" && protocol != "https" {
            return Err(AddressError::Environment(format!(
                "invalid protocol {protocol:?} of the storage account: it must be http or https"
            )));
        }
        let domain = given("domain", "AZURE_STORAGE_DOMAIN")
            .or_else(|| connected("EndpointSuffix").map(|suffix| format!("blob.{suffix}")));
        let emulator = match address.flag("localemu")? {
            Some(emulator) => emulator,
            None => variables("AZURE_STORAGE_IS_LOCAL_EMULATOR")
                .is_some_and(|value| value == "true" || value == "1"),
        };
        Ok(Self {
            account,
            key: variables("AZURE_STORAGE_KEY").or_else(|| connected("AccountKey")),
            domain: domain.unwrap_or_else(|| DOMAIN.to_owned()),
            protocol,
            emulator,
        })
    }

    /// The address, if it is not the default. That of an emulator has the account in its path.
    fn endpoint(&self) -> Option<String> {
        let Self {
            account,
            domain,
            protocol,
            ..
        } = self;
        let local =
            domain.starts_with("127.0.0.1") || domain.starts_with("localhost") || self.emulator;
        if local {
            Some(format!("{protocol}://{domain}/{account}"))
        } else if domain == DOMAIN && protocol == "https" {
            None
        } else {
            Some(format!("{protocol}://{account}.{domain}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_account(
        query: &str,
        variables: &[(&str, &str)],
    ) -> Result<(String, Option<String>, Option<String>), String> {
        let address = Address::parse(&format!("azblob://states?{query}"))
            .unwrap()
            .unwrap();
        let variables = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let service =
            AccountService::find(&address, &variables).map_err(|error| error.to_string())?;
        Ok((
            service.account.clone(),
            service.key.clone(),
            service.endpoint(),
        ))
    }

    #[test]
    fn azure_account_lookup_matches_pulumi() {
        let of = |account: &str, key: Option<&str>, endpoint: Option<&str>| {
            Ok((
                account.to_owned(),
                key.map(ToOwned::to_owned),
                endpoint.map(ToOwned::to_owned),
            ))
        };
        let account = ("AZURE_STORAGE_ACCOUNT", "acc");
        assert_eq!(
            find_account("", &[account, ("AZURE_STORAGE_KEY", "k=")]),
            of("acc", Some("k="), None)
        );
        assert_eq!(
            find_account("storage_account=other", &[account]),
            of("other", None, None)
        );
        let local = "domain=127.0.0.1:10000&protocol=http&localemu=true";
        assert_eq!(
            find_account(local, &[account]),
            of("acc", None, Some("http://127.0.0.1:10000/acc"))
        );
        let connection = "DefaultEndpointsProtocol=https;AccountName=c;AccountKey=a==;EndpointSuffix=core.chinacloudapi.cn";
        assert_eq!(
            find_account("", &[("AZURE_STORAGE_CONNECTION_STRING", connection)]),
            of(
                "c",
                Some("a=="),
                Some("https://c.blob.core.chinacloudapi.cn")
            )
        );
        assert!(
            find_account("", &[])
                .unwrap_err()
                .contains("AZURE_STORAGE_ACCOUNT")
        );
        assert!(
            find_account("protocol=ftp", &[account])
                .unwrap_err()
                .contains("\"ftp\"")
        );
    }
}
