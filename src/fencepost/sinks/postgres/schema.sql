-- Fencepost's own tables. Running pipelines need no more than SELECT, INSERT, UPDATE and DELETE on them.
CREATE SCHEMA IF NOT EXISTS {schema};

-- One row per pipeline: whoever takes over or adds a partition locks it first.
CREATE TABLE IF NOT EXISTS {schema}.pipelines (
    pipeline   text PRIMARY KEY,
    epoch      bigint NOT NULL DEFAULT 0,     -- how many owners there have been, one after the other
    taken_at   timestamptz,
    guarantee  text,                          -- under which it ran last
    seen_at    timestamptz                    -- when its owner last said that it lives
);
ALTER TABLE {schema}.pipelines ADD COLUMN IF NOT EXISTS guarantee text;
ALTER TABLE {schema}.pipelines ADD COLUMN IF NOT EXISTS seen_at timestamptz;

-- The ledger. Position 5 means that 0 to 4 are done.
CREATE TABLE IF NOT EXISTS {schema}.positions (
    pipeline   text NOT NULL REFERENCES {schema}.pipelines,
    topic      text NOT NULL,
    partition  integer NOT NULL,
    position   bigint NOT NULL CHECK (position >= 0),
    owner      uuid NOT NULL,                 -- the run that may move it
    epoch      bigint NOT NULL,
    topic_id   text,                          -- tells a recreated topic from the one that was read
    moved_at   timestamptz,
    PRIMARY KEY (pipeline, topic, partition)
) WITH (fillfactor = 50);

-- What each commit covered, old ones folded together: for status, receipts and the audit's search for gaps. Nothing is decided by it.
CREATE TABLE IF NOT EXISTS {schema}.spans (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline     text NOT NULL,
    topic        text NOT NULL,
    partition    integer NOT NULL,
    start_offset bigint NOT NULL,
    end_offset   bigint NOT NULL,
    owner        uuid NOT NULL,
    rows         bigint,                      -- null: the position moved first, and the rows came after it
    dead         bigint NOT NULL,
    landed_at    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    since        timestamptz                  -- of several that were folded into one: when the first landed
);
ALTER TABLE {schema}.spans ADD COLUMN IF NOT EXISTS since timestamptz;
CREATE INDEX IF NOT EXISTS spans_by_partition ON {schema}.spans (pipeline, topic, partition, start_offset);

-- One row per pipeline that keeps state: the last batch of Spark's stream that landed. It moves with the positions.
CREATE TABLE IF NOT EXISTS {schema}.streams (
    pipeline       text PRIMARY KEY REFERENCES {schema}.pipelines,
    query          text NOT NULL,                 -- Spark's id of the stream
    number         bigint NOT NULL,               -- of the batch: one without records has equal positions before and after
    offsets        text NOT NULL,                 -- where each of its sources stood at its end
    watermark      bigint NOT NULL,               -- of event time, in milliseconds
    next_watermark bigint NOT NULL,               -- for the batch after it
    checkpoint     text NOT NULL,                 -- the folder whose state it left
    landed_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
