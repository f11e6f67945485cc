use super::*;

fn read(given: &[&str], variables: &[(&str, &str)]) -> Result<Arguments, clap::Error> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let given = ["manager"].iter().chain(given).map(OsString::from);
    Arguments::read(given, &variable)
}

fn arguments(given: &[&str]) -> Arguments {
    read(given, &[]).unwrap()
}

fn surrounded(variables: &[(&str, &str)]) -> Arguments {
    read(&[], variables).unwrap()
}

#[test]
fn flag_defaults_are_upstreams_except_the_lease() {
    let arguments = arguments(&["--leader-elect"]);
    assert_eq!(arguments.metrics_bind_address, ListenAddress::Disabled);
    assert!(arguments.metrics_secure);
    assert!(!arguments.enable_http2);
    assert_eq!(arguments.health_probe_bind_address.to_string(), ":8081");
    assert_eq!(arguments.program_fs_addr.to_string(), ":9090");
    assert_eq!(arguments.request_timeout(), Some(Duration::from_secs(30)));
    assert_eq!(arguments.namespace, "pulumi-kubernetes-operator");
    assert_eq!(arguments.concurrency(), 25);
    let timing = arguments.election().unwrap().unwrap();
    assert_eq!(timing.lease, Duration::from_secs(20));
    assert_eq!(timing.renew_deadline, Duration::from_secs(15));
    assert_eq!(timing.retry, Duration::from_secs(5));
}

#[test]
fn flag_defaults_of_ours_limit_nothing() {
    let arguments = arguments(&[]);
    assert_eq!(arguments.workspace_runtime, WorkspaceRuntimeKind::Pod);
    assert_eq!(arguments.workspace_address, WorkspaceAddress::Ip);
    assert_eq!(arguments.idle_timeout(), None);
    assert_eq!(arguments.run_timeout(), None);
    assert!(arguments.watched_namespaces().is_empty());
    assert!(arguments.program_fs_sealed);
    assert!(!arguments.watch_secrets);
    assert_eq!(arguments.limits(), Limits::default());
    assert!(arguments.election().unwrap().is_none());
    assert!(arguments.warnings().is_empty());
}

#[test]
fn namespace_limit_defaults_to_three_quarters_of_the_cluster_limit() {
    let limit = |given: &[&str]| arguments(given).limits().namespace;
    assert_eq!(limit(&["--max-runs=8"]), Some(6));
    assert_eq!(limit(&["--max-runs=8", "--namespaces=a,b"]), Some(6));
    assert_eq!(limit(&["--max-runs=8", "--namespaces=a"]), None);
    let explicit = |value: &str| {
        let flag = format!("--max-runs-per-namespace={value}");
        limit(&["--max-runs=8", &flag])
    };
    assert_eq!(explicit("8"), Some(8));
    assert_eq!(explicit("0"), None);
    assert_eq!(limit(&["--max-runs-per-namespace=3"]), Some(3));
}

#[test]
fn flux_source_groups_default_to_flux_and_pulumi() {
    let default = arguments(&[]).flux_source_groups;
    assert_eq!(default, FluxSourceGroups::default());
    let flag = "--flux-source-groups=example.test";
    let variables = [("PKO_FLUX_SOURCE_GROUPS", "other.test")];
    let given = read(&[flag], &variables).unwrap().flux_source_groups;
    assert_eq!(Ok(given), FluxSourceGroups::parse("example.test"));
    let error = read(&["--flux-source-groups=apps"], &[]).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("`apps` is a group of Kubernetes itself"),
        "{error}"
    );
}

#[test]
fn flags_have_go_syntax() {
    for given in [
        &["-run-timeout", "5m"][..],
        &["--run-timeout", "5m"],
        &["-run-timeout=5m"],
        &["--run-timeout=5m"],
        &["--run-timeout=1m", "--run-timeout=5m"],
    ] {
        let arguments = arguments(given);
        assert_eq!(
            arguments.run_timeout(),
            Some(Duration::from_mins(5)),
            "{given:?}"
        );
    }
}

#[test]
fn flag_value_may_start_with_a_dash() {
    let arguments = arguments(&["--run-timeout", "-5m", "-v", "-1"]);
    assert_eq!(arguments.run_timeout(), None);
}

#[test]
fn flag_boolean_takes_a_value_after_equals_only() {
    for (given, expected) in [
        ("--metrics-secure", true),
        ("-metrics-secure", true),
        ("--metrics-secure=false", false),
        ("--metrics-secure=F", false),
        ("-metrics-secure=0", false),
        ("--metrics-secure=1", true),
    ] {
        assert_eq!(arguments(&[given]).metrics_secure, expected, "{given}");
    }
    // Go would stop parsing here and silently drop the rest.
    assert!(read(&["--metrics-secure", "false"], &[]).is_err());
    assert!(read(&["--metrics-secure=no"], &[]).is_err());
}

#[test]
fn flag_unknown_fails_with_go_exit_code_and_usage() {
    for given in ["--unknown", "-unknown=1", "--unknown value", "-x"] {
        let given: Vec<&str> = given.split(' ').collect();
        let error = read(&given, &[]).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{given:?}");
        assert!(error.to_string().contains("Usage: manager"), "{error}");
    }
    assert_eq!(read(&["-h"], &[]).unwrap_err().exit_code(), 0);
    assert_eq!(read(&["-help"], &[]).unwrap_err().exit_code(), 0);
}

#[test]
fn flag_help_names_the_variables() {
    let help = read(&["--help"], &[]).unwrap_err().to_string();
    for name in ["PROGRAM_FS_ADDR", "KUBE_API_TIMEOUT", "PKO_NAMESPACES"] {
        assert!(help.contains(&format!("[env: {name}]")), "{help}");
    }
    assert!(!help.contains("stderrthreshold"), "{help}");
}

#[test]
fn variable_is_the_default_of_its_flag() {
    let variables = [
        ("PROGRAM_FS_ADDR", "127.0.0.1:1"),
        ("PKO_RUN_TIMEOUT", "1h"),
        ("PKO_WORKSPACE_IDLE_TIMEOUT", "10m"),
        ("PKO_NAMESPACES", "b, a,,b"),
        ("PKO_PROGRAM_FS_SEALED", "false"),
        ("PKO_WATCH_SECRETS", "true"),
        ("PKO_MAX_RUNS", "7"),
        ("POD_NAMESPACE", "operators"),
        ("PKO_LOG", "debug,kube=info"),
    ];
    let arguments = surrounded(&variables);
    assert_eq!(arguments.program_fs_addr.to_string(), "127.0.0.1:1");
    assert_eq!(arguments.run_timeout(), Some(Duration::from_hours(1)));
    assert_eq!(arguments.idle_timeout(), Some(Duration::from_mins(10)));
    assert_eq!(arguments.watched_namespaces(), ["a", "b"]);
    assert!(!arguments.program_fs_sealed);
    assert!(arguments.watch_secrets);
    assert_eq!(arguments.limits().cluster, Some(7));
    assert_eq!(arguments.namespace, "operators");
    assert_eq!(arguments.log_filter(), "debug,kube=info");
    let arguments = read(&["--run-timeout=5m"], &variables).unwrap();
    assert_eq!(arguments.run_timeout(), Some(Duration::from_mins(5)));
}

#[test]
fn variables_of_leader_election_and_timeouts_override_flags() {
    let variables = [
        ("LEADER_ELECTION_LEASE_DURATION", "40s"),
        ("LEADER_ELECTION_RENEW_DEADLINE", "30s"),
        ("LEADER_ELECTION_RETRY_PERIOD", "7s"),
        ("KUBE_API_TIMEOUT", "1m"),
    ];
    let given = [
        "--leader-elect",
        "--kube-api-timeout=2s",
        "--leader-election-retry-period=1s",
    ];
    let arguments = read(&given, &variables).unwrap();
    let timing = arguments.election().unwrap().unwrap();
    assert_eq!(timing.lease, Duration::from_secs(40));
    assert_eq!(timing.renew_deadline, Duration::from_secs(30));
    assert_eq!(timing.retry, Duration::from_secs(7));
    assert_eq!(arguments.request_timeout(), Some(Duration::from_mins(1)));
}

#[test]
fn variable_invalid_is_ignored_with_a_warning() {
    let variables = [
        ("KUBE_API_TIMEOUT", "soon"),
        ("MAX_CONCURRENT_RECONCILES", "many"),
    ];
    let arguments = read(&["--kube-api-timeout=2s"], &variables).unwrap();
    assert_eq!(arguments.request_timeout(), Some(Duration::from_secs(2)));
    assert_eq!(arguments.concurrency(), 25);
    let warnings = arguments.warnings().join("\n");
    assert!(
        warnings.contains("KUBE_API_TIMEOUT is ignored: `soon`"),
        "{warnings}"
    );
    assert!(
        warnings.contains("MAX_CONCURRENT_RECONCILES is ignored: `many`"),
        "{warnings}"
    );
}

#[test]
fn variable_empty_counts_as_unset() {
    let names = DEFAULTS_AND_OTHERS.map(|name| (name, ""));
    let arguments = surrounded(&names);
    assert_eq!(
        format!("{arguments:?}"),
        format!("{:?}", self::arguments(&[]))
    );
}

const DEFAULTS_AND_OTHERS: [&str; 14] = [
    "AGENT_IMAGE",
    "AGENT_IMAGE_PULL_POLICY",
    "FLUX_MAX_UNTAR_SIZE_BYTES",
    "HOSTNAME",
    "KUBE_API_TIMEOUT",
    "LEADER_ELECTION_LEASE_DURATION",
    "MAX_CONCURRENT_RECONCILES",
    "PKO_AGENT",
    "PKO_LOG",
    "PKO_NAMESPACES",
    "POD_NAMESPACE",
    "POD_SA_NAME",
    "PROGRAM_FS_ADDR",
    "PROGRAM_FS_ADV_ADDR",
];

#[test]
fn concurrency_is_set_by_its_variable() {
    let concurrency = |value| surrounded(&[("MAX_CONCURRENT_RECONCILES", value)]).concurrency();
    assert_eq!(concurrency("3"), 3);
    assert_eq!(concurrency("0"), 25);
    assert_eq!(concurrency("-1"), 25);
    assert_eq!(concurrency("65536"), 25);
}

#[test]
fn agent_image_is_set_by_its_variable() {
    let settings = surrounded(&[]).agent_image_settings().clone();
    assert!(
        settings
            .agent_image
            .starts_with("pulumi/pulumi-kubernetes-operator:v"),
        "{settings:?}"
    );
    assert_eq!(settings.max_untar_size, None);
    let settings = surrounded(&[
        ("AGENT_IMAGE", "registry.example/agent:1"),
        ("FLUX_MAX_UNTAR_SIZE_BYTES", "1024"),
    ]);
    assert_eq!(
        settings.agent_image_settings().agent_image,
        "registry.example/agent:1"
    );
    assert_eq!(
        settings.agent_image_settings().max_untar_size.as_deref(),
        Some("1024")
    );
}

#[test]
fn pull_policy_is_case_insensitive() {
    for (value, expected) in [
        ("", "IfNotPresent"),
        ("always", "Always"),
        ("NEVER", "Never"),
        ("ifnotpresent", "IfNotPresent"),
        ("sometimes", "IfNotPresent"),
    ] {
        let arguments = surrounded(&[("AGENT_IMAGE_PULL_POLICY", value)]);
        assert_eq!(
            arguments.agent_image_settings().agent_image_pull_policy,
            expected,
            "{value}"
        );
    }
}

#[test]
fn service_account_defaults_to_upstreams() {
    let account = |given: &[&str], variables: &[(&str, &str)]| {
        let account = read(given, variables).unwrap().service_account();
        account.map(|(namespace, name)| format!("{namespace}/{name}"))
    };
    let expected = "pulumi-kubernetes-operator/controller-manager";
    assert_eq!(account(&[], &[]).as_deref(), Some(expected));
    let variables = [("POD_NAMESPACE", "a"), ("POD_SA_NAME", "b")];
    assert_eq!(account(&[], &variables).as_deref(), Some("a/b"));
    let process = ["--workspace-runtime=process"];
    assert_eq!(account(&process, &[]), None);
    assert_eq!(account(&process, &variables).as_deref(), Some("a/b"));
}

#[test]
fn listen_address_has_go_syntax() {
    let at = |host: &str, port| {
        Ok(ListenAddress::At {
            host: host.to_owned(),
            port,
        })
    };
    assert_eq!(":9090".parse(), at("", 9090));
    assert_eq!("127.0.0.1:1".parse(), at("127.0.0.1", 1));
    assert_eq!("localhost:1".parse(), at("localhost", 1));
    assert_eq!("[::1]:1".parse(), at("::1", 1));
    assert_eq!("0".parse(), Ok(ListenAddress::Disabled));
    assert_eq!("".parse(), Ok(ListenAddress::Disabled));
    for bad in ["9090", "::1:1", "[::1]", "localhost:http", ":70000"] {
        let error = bad.parse::<ListenAddress>().unwrap_err();
        assert!(error.contains("127.0.0.1:8081"), "{bad}");
    }
}

#[test]
fn listen_address_round_trips() {
    for text in ["0", ":9090", "127.0.0.1:1", "localhost:1", "[::1]:1"] {
        assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
    }
}

#[test]
fn advertised_address_derives_from_program_address() {
    for (address, bound, expected) in [
        (":9090", "[::]:9090", "localhost:9090"),
        ("localhost:1111", "127.0.0.1:1111", "localhost:1111"),
        ("0.0.0.0:9090", "0.0.0.0:9090", "manager-0:9090"),
        ("operator.svc:80", "10.0.0.1:80", "operator.svc:80"),
        ("127.0.0.1:0", "127.0.0.1:4711", "127.0.0.1:4711"),
        ("[::1]:0", "[::1]:4711", "[::1]:4711"),
    ] {
        let variables = [("PROGRAM_FS_ADDR", address), ("HOSTNAME", "manager-0")];
        let advertised = surrounded(&variables).advertised(bound.parse().unwrap());
        assert_eq!(advertised, expected, "{address}");
    }
    let variables = [("PROGRAM_FS_ADV_ADDR", "programs.example")];
    let advertised = surrounded(&variables).advertised("127.0.0.1:1".parse().unwrap());
    assert_eq!(advertised, "programs.example");
}

#[test]
fn log_flags_default_to_json_and_info() {
    use {LogEncoding::*, TimeEncoding::*};

    let log = |given: &[&str]| {
        let arguments = arguments(given);
        (
            arguments.log_encoding(),
            arguments.log_filter().to_owned(),
            arguments.zap_time_encoding,
        )
    };
    let cases = [
        (&[][..], (Json, "info", Rfc3339)),
        (&["--zap-devel"], (Console, "debug", Rfc3339)),
        (
            &["--zap-devel=true", "--zap-encoder=json"],
            (Json, "debug", Rfc3339),
        ),
        (&["--zap-log-level=ERROR"], (Json, "error", Rfc3339)),
        (&["--zap-log-level", "panic"], (Json, "error", Rfc3339)),
        (&["--zap-log-level", "1"], (Json, "debug", Rfc3339)),
        (&["--zap-log-level", "5"], (Json, "trace", Rfc3339)),
        (
            &["--zap-log-level=1", "--log-level=warn"],
            (Json, "warn", Rfc3339),
        ),
        (&["--zap-time-encoding=epoch"], (Json, "info", Epoch)),
        (&["--zap-time-encoding=millis"], (Json, "info", Millis)),
        (&["--zap-time-encoding=nano"], (Json, "info", Nanos)),
        (&["--zap-time-encoding=nanos"], (Json, "info", Nanos)),
        (&["--zap-time-encoding=ISO8601"], (Json, "info", Iso8601)),
        (
            &["--zap-time-encoding=rfc3339nano"],
            (Json, "info", Rfc3339Nano),
        ),
    ];
    for (given, (encoding, filter, time)) in cases {
        assert_eq!(log(given), (encoding, filter.to_owned(), time), "{given:?}");
    }
    for bad in [
        "--zap-log-level=0",
        "--zap-log-level=-1",
        "--zap-log-level=loud",
        "--zap-encoder=xml",
        "--zap-time-encoding=tai",
        "--zap-stacktrace-level=loud",
    ] {
        assert!(read(&[bad], &[]).is_err(), "{bad}");
    }
}

#[test]
fn flags_without_effect_warn_once() {
    let arguments = arguments(&["-v=5", "-logtostderr", "-stderrthreshold", "INFO"]);
    let [warning] = arguments.warnings() else {
        unreachable!("{:?}", arguments.warnings())
    };
    assert!(
        warning.starts_with("-v, -stderrthreshold, -logtostderr: "),
        "{warning}"
    );
    let arguments = self::arguments(&["--zap-stacktrace-level=error"]);
    assert!(
        arguments
            .warnings()
            .concat()
            .contains("--zap-stacktrace-level has no effect")
    );
}

#[test]
fn git_flags_default_to_one_minute_and_no_plain_http() {
    let settings = arguments(&[]).git_settings();
    assert_eq!(settings.interval, Duration::from_mins(1));
    assert!(!settings.allow_http);
    assert_eq!(settings.github_api, "https://api.github.com");
    let given = [
        "--git-poll-interval=5m",
        "--git-allow-http",
        "--github-api-url=https://github.test/api/v3",
    ];
    let settings = arguments(&given).git_settings();
    assert_eq!(settings.interval, Duration::from_mins(5));
    assert!(settings.allow_http);
    assert_eq!(settings.github_api, "https://github.test/api/v3");
    let variables = [
        ("PKO_GIT_POLL_INTERVAL", "0s"),
        ("PKO_GIT_ALLOW_HTTP", "true"),
    ];
    let settings = surrounded(&variables).git_settings();
    assert_eq!(
        settings.interval, SHORTEST_GIT_POLL,
        "never without a pause"
    );
    assert!(settings.allow_http);
}

#[test]
fn pod_restrictions_follow_flags() {
    assert_eq!(
        arguments(&[]).pod_restrictions(),
        PodRestrictions::default()
    );
    let given = [
        "--default-service-account=runner",
        "--allowed-service-accounts= runner,deployer ,",
        "--restrict-pod-templates",
    ];
    let expected = PodRestrictions {
        default_service_account: Some("runner".to_owned()),
        allowed_service_accounts: vec!["deployer".to_owned(), "runner".to_owned()],
        enforces_baseline: true,
    };
    assert_eq!(arguments(&given).pod_restrictions(), expected);
}
