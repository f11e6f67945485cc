//! The contract with agents and operators that are not ours, as a table: names, numbers, types and
//! presence of everything in package `agent`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

const METHODS: &str = "\
WhoAmI(WhoAmIRequest) WhoAmIResult
SelectStack(SelectStackRequest) SelectStackResult
Info(InfoRequest) InfoResult
SetAllConfig(SetAllConfigRequest) SetAllConfigResult
AddEnvironments(AddEnvironmentsRequest) AddEnvironmentsResult
Install(InstallRequest) InstallResult
PulumiVersion(PulumiVersionRequest) PulumiVersionResult
Preview(PreviewRequest) stream PreviewStream
Refresh(RefreshRequest) stream RefreshStream
Up(UpRequest) stream UpStream
Destroy(DestroyRequest) stream DestroyStream";

const MESSAGES: &str = "\
WhoAmIRequest:
WhoAmIResult: 1 user string; 2 organizations repeated string; 3 url string
SelectStackRequest: 1 stack_name string; 2 create optional bool; 3 secrets_provider optional string
SelectStackResult: 1 summary StackSummary
InfoRequest:
InfoResult: 1 summary StackSummary
StackSummary: 1 name string; 2 last_update Timestamp; 3 update_in_progress bool; 4 resource_count optional int32; 5 url optional string
SetAllConfigRequest: 1 config repeated ConfigItem
SetAllConfigResult:
ConfigItem: 1 key string; 2 path optional bool; 3 value v/Value; 4 value_from v/ConfigValueFrom; 5 secret optional bool
ConfigValueFrom: 1 env f/string; 2 path f/string; 3 json optional bool
AddEnvironmentsRequest: 1 environment repeated string
AddEnvironmentsResult:
InstallRequest:
InstallResult:
PulumiVersionRequest:
PulumiVersionResult: 1 version string
PolicyPack: 1 name string
PreviewRequest: 1 parallel optional int32; 2 message optional string; 3 expect_no_changes optional bool; 4 replace repeated string; 5 target repeated string; 6 target_dependents optional bool; 7 policy_pack repeated PolicyPack; 8 refresh optional bool
UpRequest: 1 parallel optional int32; 2 message optional string; 3 expect_no_changes optional bool; 4 replace repeated string; 5 target repeated string; 6 target_dependents optional bool; 8 policy_pack repeated PolicyPack; 9 refresh optional bool; 10 continue_on_error optional bool
RefreshRequest: 1 parallel optional int32; 2 message optional string; 3 expect_no_changes optional bool; 4 target repeated string; 5 run_program optional bool
DestroyRequest: 1 parallel optional int32; 2 message optional string; 3 target repeated string; 4 target_dependents optional bool; 5 refresh optional bool; 6 continue_on_error optional bool; 7 remove optional bool; 8 run_program optional bool
PreviewStream: 1 event response/Struct; 2 result response/PreviewResult
RefreshStream: 1 event response/Struct; 2 result response/RefreshResult
UpStream: 1 event response/Struct; 2 result response/UpResult
DestroyStream: 1 event response/Struct; 2 result response/DestroyResult
PreviewResult: 1 stdout string; 2 stderr string; 3 summary UpdateSummary; 4 permalink optional string; 5 project_info optional ProjectInfo
RefreshResult: 1 stdout string; 2 stderr string; 3 summary UpdateSummary; 4 permalink optional string; 5 project_info optional ProjectInfo
UpResult: 1 stdout string; 2 stderr string; 3 summary UpdateSummary; 4 permalink optional string; 5 outputs repeated OutputsEntry; 6 project_info optional ProjectInfo
DestroyResult: 1 stdout string; 2 stderr string; 3 summary UpdateSummary; 4 permalink optional string; 5 project_info optional ProjectInfo
OutputValue: 1 value bytes; 2 secret bool
UpdateSummary: 1 start_time Timestamp; 2 end_time Timestamp; 3 result string; 4 message string
ProjectInfo: 1 name string; 2 runtime string
PulumiErrorInfo: 1 code int32; 2 reason string; 3 message string";

#[test]
fn agent_package_is_upstreams() {
    let file = file("agent.proto");
    assert_eq!(file.package(), "agent");
    let [service] = &file.service[..] else {
        panic!("one service")
    };
    assert_eq!(service.name(), "AutomationService");
    assert_eq!(methods(service), METHODS);
    let messages: Vec<String> = file.message_type.iter().map(message).collect();
    assert_eq!(messages.join("\n"), MESSAGES);
    assert!(file.enum_type.is_empty());
}

#[test]
fn outputs_map_has_string_keys() {
    let file = file("agent.proto");
    let result = file
        .message_type
        .iter()
        .find(|m| m.name() == "UpResult")
        .unwrap();
    let [entry] = &result.nested_type[..] else {
        panic!("one map")
    };
    assert_eq!(
        message(entry),
        "OutputsEntry: 1 key string; 2 value OutputValue"
    );
}

#[test]
fn run_service_is_in_own_package() {
    let file = file("run.proto");
    assert_eq!(file.package(), "pko.agent.v1");
    assert_eq!(
        methods(&file.service[0]),
        "StartRun(StartRunRequest) Run\n\
         WatchRun(WatchRunRequest) stream RunEvent\n\
         GetRun(GetRunRequest) Run\n\
         CancelRun(CancelRunRequest) Run\n\
         AcknowledgeRun(AcknowledgeRunRequest) AcknowledgeRunResponse\n\
         ListRuns(ListRunsRequest) ListRunsResponse"
    );
}

fn file(name: &str) -> FileDescriptorProto {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let set = protox::compile([name], [folder]).unwrap();
    set.file
        .into_iter()
        .find(|file| file.name() == name)
        .unwrap()
}

fn methods(service: &ServiceDescriptorProto) -> String {
    let lines = service.method.iter().map(|method| {
        assert!(!method.client_streaming());
        let stream = if method.server_streaming() {
            "stream "
        } else {
            ""
        };
        let (input, output) = (short(method.input_type()), short(method.output_type()));
        format!("{}({input}) {stream}{output}", method.name())
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn message(message: &DescriptorProto) -> String {
    let fields: Vec<String> = message.field.iter().map(|f| field(message, f)).collect();
    format!("{}: {}", message.name(), fields.join("; "))
        .trim_end()
        .to_owned()
}

fn field(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Message => short(field.type_name()).to_owned(),
        simple => simple
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_lowercase(),
    };
    let presence = match field.oneof_index {
        _ if field.label() == Label::Repeated => "repeated ".to_owned(),
        _ if field.proto3_optional() => "optional ".to_owned(),
        Some(index) => format!(
            "{}/",
            message.oneof_decl[usize::try_from(index).unwrap()].name()
        ),
        None => String::new(),
    };
    format!("{} {} {presence}{kind}", field.number(), field.name())
}

fn short(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or(type_name)
}
