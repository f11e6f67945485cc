//! Where each of the 137 scenarios is.

use std::{collections::BTreeSet, fs, path::Path};

/// A file below `crates`, and its tests with the numbers of their scenarios.
type TestLocation = (&'static str, &'static [(&'static str, &'static [u16])]);

const PLACES: &[TestLocation] = &[
    (
        "pko-core/src/stack/tests/scenarios/finalization.rs",
        &[
            (
                "scenarios_2_to_4_and_9_a_stack_goes_or_waits",
                &[2, 3, 4, 9],
            ),
            ("scenarios_5_to_7_a_destroy_is_started", &[5, 6, 7]),
        ],
    ),
    (
        "pko-core/src/stack/tests/scenarios/current_update.rs",
        &[
            (
                "scenarios_10_and_11_an_update_that_has_not_ended",
                &[10, 11],
            ),
            ("scenario_12_a_failure_is_recorded", &[12]),
            (
                "scenarios_13_and_14_the_message_of_a_failure_is_kept",
                &[13, 14],
            ),
            (
                "scenarios_15_16_18_and_19_failures_are_counted",
                &[15, 16, 18, 19],
            ),
            ("scenario_17_a_success_is_recorded", &[17]),
            ("scenario_20_outputs_are_copied", &[20]),
        ],
    ),
    (
        "pko-core/src/stack/shown_outputs.rs",
        &[("secret_outputs_are_masked", &[20])],
    ),
    (
        "pko-core/src/stack/tests/scenarios/triggers.rs",
        &[
            (
                "scenarios_21_24_27_to_29_and_33_an_update_is_wanted",
                &[21, 24, 27, 28, 29, 33],
            ),
            (
                "scenarios_22_23_25_and_26_a_failure_is_waited_out",
                &[22, 23, 25, 26],
            ),
            ("scenarios_30_to_32_nothing_is_wanted", &[30, 31, 32]),
        ],
    ),
    (
        "pko-core/src/stack/tests/scenarios/updates.rs",
        &[
            (
                "scenarios_35_to_37_an_update_waits_for_its_workspace",
                &[35, 36, 37],
            ),
            ("scenario_38_a_ready_workspace_gets_an_update", &[38]),
            ("scenarios_40_and_41_a_preview", &[40, 41]),
        ],
    ),
    (
        "pko-core/src/stack/tests/desired/update_templates.rs",
        &[("update_template_sets_ttl", &[8, 39])],
    ),
    (
        "pko-core/src/stack/tests/scenarios/prerequisites.rs",
        &[
            (
                "scenarios_42_to_46_and_48_a_stack_waits",
                &[42, 43, 44, 45, 46, 48],
            ),
            ("scenarios_47_and_49_stack_continues", &[47, 49]),
            ("scenario_50_deleting_stack_skips_prerequisites", &[50]),
        ],
    ),
    (
        "pko-core/src/stack/tests/scenarios/sources.rs",
        &[
            ("scenario_34_a_branch_that_moved", &[34]),
            ("scenario_51_no_source_at_all", &[51]),
            ("scenario_52_the_very_object_is_asked_for", &[52]),
            (
                "scenarios_53_54_56_57_and_59_sources_that_can_not_be_had",
                &[53, 54, 56, 57, 59],
            ),
            ("scenario_55_an_artifact_is_passed_on", &[55]),
            ("scenario_58_a_commit_is_passed_on", &[58]),
        ],
    ),
    (
        "pko-core/src/stack/tests/scenarios/environment.rs",
        &[
            ("scenarios_60_to_62_variables", &[60, 61, 62]),
            (
                "scenarios_63_64_70_and_71_unresolvable_references",
                &[63, 64, 70, 71],
            ),
            (
                "scenarios_65_to_69_and_72_the_stack_and_its_config",
                &[65, 66, 67, 68, 69, 72],
            ),
        ],
    ),
    // Upstream has the function and does not use it.
    (
        "pko-core/src/stack/check/tests.rs",
        &[
            ("several_sources_are_remarked_on_and_one_is_used", &[73]),
            ("several_credentials_are_listed_in_order_of_use", &[73]),
        ],
    ),
    (
        "pko-core/src/stack/tests/scenarios/unit.rs",
        &[
            (
                "scenarios_74_to_79_a_first_update_a_new_spec_a_deletion",
                &[74, 75, 76, 77, 78, 79],
            ),
            ("scenarios_80_to_83_after_a_success", &[80, 81, 82, 83]),
            (
                "scenarios_84_to_89_after_a_failure",
                &[84, 85, 86, 87, 88, 89],
            ),
            ("scenarios_90_and_92_a_destroy_without_source", &[90, 92]),
            ("scenario_93_the_project_is_copied", &[93]),
            ("scenario_94_an_update_is_made_with_its_finalizer", &[94]),
            ("scenarios_97_to_99_a_workspace_that_stalls", &[97, 98, 99]),
            (
                "scenario_100_a_destroy_does_not_need_the_program_that_is_gone",
                &[100],
            ),
            (
                "scenarios_101_and_102_what_keeps_a_stack_from_going",
                &[101, 102],
            ),
            ("scenario_135_where_a_result_leaves_a_stack", &[135]),
        ],
    ),
    (
        "pko-core/src/stack/tests/desired/templates.rs",
        &[
            ("destroy_without_program_has_no_source", &[91]),
            ("template_is_merged_with_stack", &[115]),
        ],
    ),
    // On the API server.
    (
        "pko-operator/tests/it/stack_scenarios.rs",
        &[
            (
                "scenarios_1_95_and_103_no_orphans_and_no_labels_lost",
                &[1, 95, 103],
            ),
            (
                "scenarios_94_to_96_update_is_held_until_recorded",
                &[94, 95, 96],
            ),
            (
                "scenario_137_a_variable_from_a_container_a_bad_image_and_reclaim",
                &[137],
            ),
            ("scenario_137_a_cli_that_is_too_old", &[137]),
            ("scenario_137_config_of_all_types", &[137]),
        ],
    ),
    (
        "pko-operator/tests/it/deletion.rs",
        &[("namespace_deletion_reports_what_to_do", &[102])],
    ),
    // A Workspace whose agent does not know us, which 137 has as well.
    (
        "pko-core/src/workspace/tests.rs",
        &[("workspace_with_unreachable_agent_is_not_ready", &[137])],
    ),
    // The source in a spec.
    (
        "pko-core/src/stack/source/tests/login.rs",
        &[
            (
                "git_auth_variants_are_read",
                &[106, 107, 109, 111, 126, 127, 129],
            ),
            ("git_auth_secret_precedes_git_auth", &[108, 110, 112]),
            ("empty_git_auth_is_none", &[121]),
            (
                "git_auth_non_secret_reference_has_upstreams_error",
                &[123, 124, 125],
            ),
        ],
    ),
    (
        "pko-core/src/stack/source/tests/shape.rs",
        &[
            ("ssh_key_and_password_selectors_are_required", &[116]),
            ("token_is_one_selector", &[117]),
            ("basic_auth_is_two_selectors", &[118]),
            ("git_auth_secret_is_four_optional_selectors", &[119]),
            ("git_source_without_auth_has_no_credentials", &[120]),
        ],
    ),
    (
        "pko-core/src/stack/source/tests/git.rs",
        &[
            ("git_fields_require_address", &[131]),
            ("git_requires_commit_or_branch", &[131]),
            ("git_commit_of_digits_is_a_commit", &[132]),
        ],
    ),
    (
        "pko-core/src/stack/source/tests/flux.rs",
        &[
            ("flux_artifact_is_used_once_stored", &[133]),
            ("news_are_the_first_artifact_and_another_revision", &[134]),
        ],
    ),
    // What is read from Secrets, and heard from git servers.
    (
        "pko-operator/src/sources/git/credentials/tests.rs",
        &[
            (
                "git_login_of_each_variant",
                &[106, 107, 109, 111, 122, 126, 127, 129],
            ),
            (
                "git_login_kind_follows_from_the_keys_of_a_secret",
                &[108, 110, 112],
            ),
            (
                "git_login_missing_key_has_upstreams_message",
                &[104, 105, 113, 114, 128, 130],
            ),
        ],
    ),
    (
        "pko-operator/src/sources/git/address.rs",
        &[("git_address_error_does_not_repeat_the_password", &[131])],
    ),
    (
        "pko-source/tests/it/git_references.rs",
        &[("revision_not_found_names_the_most_similar", &[57, 132])],
    ),
    (
        "pko-operator/tests/it/git_sources.rs",
        &[
            ("git_branch_is_followed_and_commit_is_not", &[34, 58]),
            (
                "git_credentials_come_from_secrets_and_may_come_later",
                &[59, 137],
            ),
            ("git_errors_are_reported_and_a_branch_may_come_later", &[57]),
        ],
    ),
    (
        "pko-operator/src/metrics/tests.rs",
        &[("scenario_136_object_metrics_follow_the_objects", &[136])],
    ),
];

#[test]
fn scenarios_have_tests() {
    let tests = PLACES.iter().flat_map(|(_, tests)| tests.iter());
    let found: BTreeSet<u16> = tests
        .flat_map(|(_, numbers)| numbers.iter().copied())
        .collect();
    let all: BTreeSet<u16> = (1..=137).collect();
    let missing: Vec<&u16> = all.symmetric_difference(&found).collect();
    assert_eq!(missing, Vec::<&u16>::new());
}

#[test]
fn scenario_tests_exist() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (file, tests) in PLACES {
        let text = fs::read_to_string(crates.join(file)).unwrap();
        for (test, _) in *tests {
            assert!(text.contains(&format!("fn {test}()")), "{file}: {test}");
        }
    }
}
