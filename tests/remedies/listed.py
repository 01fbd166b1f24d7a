"""Every remedy that is a command, a statement or a setting: the test that follows it, or why none does.

What the source says, with {} for what it fills in.
"""

from __future__ import annotations

FOLLOWED = {
    # commands
    "fencepost positions set --topic {} --to {}": "test_records_that_are_gone_are_skipped_and_nothing_else_moves",
    "fencepost positions set": "test_positions_of_the_file_that_was_typed_are_set_and_not_those_of_the_folders",
    "fencepost state rebuild": "test_state_is_built_anew_for_the_file_that_was_typed",
    "to read the new one from its start: fencepost positions set --topic {} --to earliest": (
        "test_a_topic_that_was_created_again_is_read_from_its_start"
    ),
    "choose where to continue: `fencepost positions set --to earliest` (everything again), `--to latest` (only new "
    "records), or `--to 0:120,1:7` (an offset per partition); or use an empty topic": (
        "test_a_topic_that_was_created_again_is_read_from_its_start"
    ),
    "choose where to continue with `fencepost positions set`, or use an empty table": (
        "test_offsets_name_every_partition_where_nobody_knows_how_far_the_others_were_read"
    ),
    "build it anew from elsewhere, into an empty table: fencepost state rebuild --to earliest (docs/state.md)": (
        "test_who_lost_the_state_builds_it_anew_in_the_emptied_table"
    ),
    "build the state anew, into an empty table: fencepost state rebuild --to earliest (docs/state.md)": (
        "test_who_lost_the_state_builds_it_anew_in_the_emptied_table"
    ),
    "set batch: {records: 1} and run again: then everything before it lands, and the command that skips it is shown": (
        "test_a_time_that_spark_cannot_read_is_skipped_and_nothing_else_is"
    ),
    "its batch left {} in the dead letters: `fencepost receipt --check` tells which": "test_a_dead_letter_is_told",
    "fencepost topic create": "test_a_topic_that_is_missing_is_made_where_it_is_missing",
    "`fencepost init FOLDER`, then in it `fencepost init --db --role NAME`": (
        "test_a_role_is_made_and_granted_what_it_needs_by_what_is_said_and_runs"
    ),
    "kafka-consumer-groups.sh --bootstrap-server {} --group {} --reset-offsets": (
        "test_a_consumers_group_skips_records_that_are_gone_by_kafkas_tool"
    ),
    "convert it (keytool -list -rfc -keystore {} > ca.pem), then set it to that file, and ssl.truststore.type=PEM": (
        "test_java_stores_are_converted_by_keytool"
    ),
    "convert it (keytool -importkeystore -srckeystore {} -destkeystore key.p12 -deststoretype PKCS12), then set it to "
    "that file, and ssl.keystore.type=PKCS12": "test_java_stores_are_converted_by_keytool",
    "openssl pkcs8 -topk8 -nocrypt -in {} -out client.pk8.pem, and give sslkey=client.pk8.pem; {}": (
        "test_a_key_becomes_one_that_jdbc_reads_by_openssl"
    ),
    "with a pipeline file of name {} and {}, ": "test_a_handler_with_outputs_skips_records_that_are_gone",
    "with a pipeline file of name {} and this sink, ": (
        "test_events_that_go_into_a_table_without_a_file_skip_records_that_are_gone"
    ),
    "choose where to continue with `fencepost positions set`": (
        "test_a_delta_table_that_was_restored_goes_on_where_positions_set_says"
    ),
    "the first `fencepost run` makes it": "test_a_delta_table_is_made_by_the_first_run_and_then_positions_are_set",
    "`fencepost run` starts from scratch where there is no table, or an empty one; else choose where to continue with "
    "`fencepost positions set`": (
        "test_a_table_that_is_removed_under_a_live_run_ends_it_and_the_next_starts_from_scratch"
    ),
    # statements
    "ALTER TABLE delta.{} SET TBLPROPERTIES ('{}' = 'false')": (
        "test_a_table_for_appends_only_is_refused_where_rows_are_merged"
    ),
    "ALTER TABLE delta.{} UNSET TBLPROPERTIES ('{}')": "test_a_delta_table_that_forgets_is_mended_by_the_statements",
    "ALTER TABLE delta.{} SET TBLPROPERTIES ('{}' = 'interval 30 days')": (
        "test_a_delta_table_that_forgets_is_mended_by_the_statements"
    ),
    "drop it in the transform, or: ALTER TABLE {} {}": "test_columns_that_a_table_lacks_are_added_by_the_statement",
    "ALTER TABLE {} {}": "test_a_key_that_may_be_null_is_fixed_by_the_statement",
    "CREATE UNIQUE INDEX ON {} ({}); {}": "test_a_key_gets_its_unique_index_and_is_never_null_by_the_statements",
    "UPDATE {} SET _topic = {} WHERE _topic = {}": (
        "test_rows_of_a_deleted_topic_are_renamed_by_the_statement_and_upsert_takes_the_new_ones"
    ),
    "GRANT CREATE ON SCHEMA {} TO {}": (
        "test_the_right_to_make_a_stage_is_granted_by_the_statement_whatever_the_names"
    ),
    "GRANT TEMPORARY ON DATABASE {} TO {}": "test_the_right_to_make_temporary_tables_is_granted_by_the_statement",
    "its owner grants it: docs/security.md has it by command. All that a run needs: with the pipeline's file "
    "and another DSN `fencepost init --db --role NAME`": (
        "test_a_right_that_was_lost_stops_the_run_and_is_granted_again_by_the_command"
    ),
    "GRANT {} ON {} {} TO {}": "test_a_role_is_made_and_granted_what_it_needs_by_what_is_said_and_runs",
    "create it: CREATE ROLE {} LOGIN PASSWORD ...": (
        "test_a_role_is_made_and_granted_what_it_needs_by_what_is_said_and_runs"
    ),
    "SELECT pg_catalog.pg_terminate_backend({})": (
        "test_who_holds_what_a_takeover_needs_is_named_and_the_remedy_helps"
    ),
    # settings of the pipeline file
    "at least once, an earlier attempt may have written these rows: set mode: dedupe, with the columns of that "
    "unique index as key": "test_rows_that_may_be_there_already_go_on_with_dedupe",
    **dict.fromkeys(
        [
            "remove it: one task reads one partition; add partitions to the topic",
            "remove it, and set batch.records",
            "remove it: positions are not read from Spark's checkpoint",
            "remove it; after a loss, choose where to continue with `fencepost positions set`",
            "remove it: only committed records are read",
            "remove it: a failed task is retried, and the fence decides what landed",
            "leave tombstones: keep, and let the transform mark such rows",
            "keep the column _from in the transform and leave provenance on, or give order_by",
        ],
        "test_what_the_table_says_makes_the_plan_pass",
    ),
    "fix the transform or the table, or set on_error: dead_letter to write such records to the dead letters": (
        "test_a_bad_record_is_dead_lettered_by_the_setting"
    ),
    "fix that and run again; to dead-letter all of them set dead_letters: {max_share: 1}": (
        "test_after_the_brake_all_of_them_are_dead_lettered_by_the_setting"
    ),
    "fix the transform: take the raw value, without source.schema, and parse it there": (
        "test_before_a_topic_a_bad_record_is_fixed_in_the_transform"
    ),
    "{}; or set on_error: dead_letter and dead_letters: {topic: NAME}": (
        "test_before_a_topic_a_bad_record_is_fixed_in_the_transform"
    ),
    "leave it at stop": "test_exactly_once_is_refused_with_what_can_be_had",
    "keep the column _from in the transform, and leave provenance on": (
        "test_dead_letters_that_cannot_be_had_are_refused_by_the_plan"
    ),
    "set {}: ${SPARK_SECRET} under spark:, the same as the master's and the workers' (docs/cluster.md), or {}: "
    "false on a private network": (
        "test_a_master_that_needs_a_secret_is_taken_with_each_setting_that_the_remedy_names"
    ),
    # settings of clients, topics and servers
    "remove it, or set it to {}": "test_a_producers_setting_is_taken_with_each_value_that_the_remedy_names",
    "remove it: it is {} here": "test_a_consumers_setting_may_have_the_value_that_the_remedy_names",
    "give it replication factor 3 and min.insync.replicas 2": "test_a_topic_gets_its_replicas_by_kafkas_own_tool",
    "lower min.insync.replicas or raise the replication factor": (
        "test_a_setting_of_the_topic_is_fixed_as_the_remedy_says"
    ),
    "set unclean.leader.election.enable=false": "test_a_setting_of_the_topic_is_fixed_as_the_remedy_says",
    "this is a standby, or default_transaction_read_only is on for the role or the database: connect to the primary "
    "(target_session_attrs=read-write), or set it to off": (
        "test_a_role_that_may_only_read_is_told_what_to_set_and_writes_then"
    ),
    # options of the command line
    "if it was not: give --from-start": "test_a_file_that_was_not_sent_before_is_sent_from_its_start_once",
    "fix it, or give --errors skip": "test_skipped_they_are_counted",
    "fix the line and run again, or give --errors skip": "test_skipped_they_are_counted",
    "fix the line, or give --errors skip": "test_skipped_they_are_counted",
    "start it again, without --standby": (
        "test_a_second_and_a_third_member_join_and_leave_and_nothing_is_lost_or_doubled"
    ),
    # warnings of a plan
    "the rows have no provenance (the transform drops _from, or provenance is off): the audit can check spans and "
    "rows per span, but not which record is missing": "test_a_warning_goes_with_what_it_advises",
    "a topic has more partitions than when it was read last: a key may go to another one now, and across partitions "
    "the later commit wins; give order_by where that matters": "test_a_warning_of_partitions_goes_with_order_by",
}

_STACK = "starts the local stack: the suites of the stack do nothing else"
_MAKES = "names the command that makes a file: the suites of that command run it"
_WHERE = "says where to give an address or a file that was not given: the suites give them"
_WORDS = "options that exclude each other: without the one that it names nothing is left to refuse"
_SECURITY = (
    "how to be let into a cluster, which none of the stack's brokers asks for; that the words are taken is tested"
)
_ENGINE = "another program: what each engine takes has suites of its own"
_TELLS = "tells what is so, and advises nothing"
NOT_FOLLOWED = {
    "ALTER TABLE {} ADD COLUMNS ({})": "no remedy: what a run itself does, with schema: evolve",
    "set batch: {records: {}} if that goes on": "how fast brokers take records is theirs: a guess",
    "`?fencepost positions set|set on_error": "what a pipeline file is put before: no remedy by itself",
    "run `fencepost up`, or give --bootstrap-server": _STACK,
    "run `fencepost up`, or set kafka: {bootstrap.servers: HOST:PORT}": _STACK,
    "run `fencepost up`, or set sink.options.dsn in the pipeline file, or PGHOST in the environment": _STACK,
    "set it, or start the local stack with `fencepost up`": _STACK,
    "`fencepost up` starts one": _STACK,
    "`fencepost up` starts what is down": _STACK,
    "`fencepost up` ends them": _STACK,
    "fencepost up": _STACK,
    "see `fencepost init`": _MAKES,
    "see the file that `fencepost init NAME` makes": _MAKES,
    "make one with `fencepost init NAME`, or give --spec": _MAKES,
    "next: fencepost produce --topic orders --count 1000 (if there is no such topic yet), fencepost run --once": (
        "no remedy: what to do next"
    ),
    "give --bootstrap-server host:port": _WHERE,
    "give --file FILE, or --count N": _WHERE,
    "give --partition and --offset, or --id": _WHERE,
    "give --sink, --journal or a pipeline file": _WHERE,
    "give --topic with one of {}": _WHERE,
    "give --input jsonl or csv": _WHERE,
    "give --input {} to send its lines as they are": _WHERE,
    "give --replication-factor {}, or start more brokers": "the same command with another number",
    "take another name, or give --if-not-exists": "the same command, which then does nothing",
    "remove --mode": _WORDS,
    "remove --guarantee": _WORDS,
    "give --lab DIR": _WHERE,
    "remove it: the topics are those of the stored positions": _WORDS,
    "remove it: the file says where Kafka is, under kafka:": _WORDS,
    "give --guarantee": _WHERE,
    "give --sink '{format: ..., options: {...}}', as in its script": _WHERE,
    "remove --engine python": _WORDS,
    "rows of one key are compared by provenance: remove --id": _WORDS,
    "remove it: keys decide which events count": _WORDS,
    "remove it": _WORDS,
    "add --yes": _WORDS,
    "compare them by an id: --id COLUMN; or keep the column _from in the transform": (
        "two ways to audit, each with suites of its own"
    ),
    "set sasl.mechanism: {}": _SECURITY,
    "set {}: oidc with {}, or run on engine: python": _SECURITY,
    "set ssl.key.password for its key": _SECURITY,
    "set ssl.truststore.location (type PEM) or ssl.ca.location to the certificate of its issuer": _SECURITY,
    "set socket.connection.setup.timeout.ms instead": _SECURITY,
    "remove it, or set ssl.providers for OpenSSL": _SECURITY,
    "remove it: both sides agree on the newest version of TLS that they have": _SECURITY,
    "remove it: PLAIN, SCRAM, GSSAPI and OAUTHBEARER need none": _SECURITY,
    "remove it: Fencepost creates it again": "a folder of root's: the suite of root's PostgreSQL makes one",
    "remove it, or fix it": "a column that is no header: the unit tests of outputs refuse it, and nothing is left then",
    "remove it, or run on engine: python": _SECURITY,
    "use engine: spark, or write it as transform.arrow": _ENGINE,
    "flat fields only (bigint, int, string, double, boolean, decimal(p,s), date, timestamp, binary); take the value as "
    "it is and parse it in transform.arrow, or use engine: spark": _ENGINE,
    "connect to PostgreSQL itself, or to a pool in session mode (PgBouncer: pool_mode = session)": (
        "tried with a real PgBouncer in both modes by the suite of sessions"
    ),
    "fix the transform, or set batch: {records: {}}": "needs more bad records in one batch than a test should make",
    "{} sees the records of one batch only, and batch boundaries are arbitrary: rows of two batches are not "
    "combined": _TELLS,
    "topic {} was read before and is no longer in the file: its positions are kept": _TELLS,
    "topic {} is new: it starts at source.start": _TELLS,
    "the rows that are there {}, and changing the guarantee does not fix them": _TELLS,
    "it ran under {} until now: the position is kept, {}; new ones {}": _TELLS,
    "the rows of a batch have no order and no provenance: of several rows of one key any may win; keep _from, or "
    "max(_from), or give order_by": "of a staged transform: the suites of Spark's engine carry it",
}
