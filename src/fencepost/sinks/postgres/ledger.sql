-- The ledger's statements, by name. {schema} is where our own tables are. Every function and type is PostgreSQL's own by
-- name, whatever the search_path says.

-- name: stored
SELECT topic, partition, position, owner, epoch, topic_id, moved_at
FROM {schema}.positions WHERE pipeline = %(pipeline)s ORDER BY topic, partition

-- name: stored_of
SELECT topic, partition, position, owner, epoch, topic_id, moved_at
FROM {schema}.positions WHERE pipeline = %(pipeline)s AND (topic, partition) IN (SELECT * FROM ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[])
))

-- name: advance
-- compare and set, and note the spans: the fence
WITH span AS (
    SELECT * FROM ROWS FROM (
        pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
        pg_catalog.unnest(%(starts)s::bigint[]), pg_catalog.unnest(%(ends)s::bigint[]),
        pg_catalog.unnest(%(rows)s::bigint[]), pg_catalog.unnest(%(dead)s::bigint[])
    ) AS span (topic, partition, start_offset, end_offset, rows, dead)
), moved AS (
    UPDATE {schema}.positions AS held
    SET position = span.end_offset, moved_at = pg_catalog.clock_timestamp()
    FROM span
    WHERE held.pipeline = %(pipeline)s AND held.topic = span.topic AND held.partition = span.partition
      AND held.position = span.start_offset AND held.owner = %(token)s
    RETURNING span.*
)
INSERT INTO {schema}.spans (pipeline, topic, partition, start_offset, end_offset, owner, rows, dead)
SELECT %(pipeline)s, topic, partition, start_offset, end_offset, %(token)s, rows, dead FROM moved

-- name: retreat
-- compare and set back, and forget the spans
WITH span AS (
    SELECT * FROM ROWS FROM (
        pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
        pg_catalog.unnest(%(starts)s::bigint[]), pg_catalog.unnest(%(ends)s::bigint[])
    ) AS span (topic, partition, start_offset, end_offset)
), moved AS (
    UPDATE {schema}.positions AS held
    SET position = span.start_offset, moved_at = pg_catalog.clock_timestamp()
    FROM span
    WHERE held.pipeline = %(pipeline)s AND held.topic = span.topic AND held.partition = span.partition
      AND held.position = span.end_offset AND held.owner = %(token)s
    RETURNING span.*
), undone AS (
    DELETE FROM {schema}.spans AS noted USING moved
    WHERE noted.pipeline = %(pipeline)s AND noted.topic = moved.topic AND noted.partition = moved.partition
      AND noted.start_offset = moved.start_offset AND noted.end_offset = moved.end_offset AND noted.owner = %(token)s
)
SELECT pg_catalog.count(*) FROM moved

-- name: enter
-- locks the pipeline's row, so that takeovers queue up
INSERT INTO {schema}.pipelines (pipeline, taken_at) VALUES (%(pipeline)s, pg_catalog.clock_timestamp())
ON CONFLICT (pipeline) DO UPDATE SET taken_at = excluded.taken_at RETURNING epoch

-- name: count_owner
-- who is the newest owner stays it
UPDATE {schema}.pipelines AS one SET epoch = epoch + 1
WHERE pipeline = %(pipeline)s AND NOT EXISTS (
    SELECT 1 FROM {schema}.positions AS held
    WHERE held.pipeline = %(pipeline)s AND held.owner = %(token)s AND held.epoch = one.epoch
)
RETURNING epoch

-- name: lock
SELECT topic, partition, position FROM {schema}.positions
WHERE pipeline = %(pipeline)s AND (topic, partition) IN (SELECT * FROM ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[])
))
ORDER BY topic, partition FOR UPDATE

-- name: own
INSERT INTO {schema}.positions AS held (pipeline, topic, partition, position, owner, epoch, topic_id)
SELECT %(pipeline)s, topic, partition, position, %(token)s, %(epoch)s, topic_id
FROM ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
    pg_catalog.unnest(%(positions)s::bigint[]), pg_catalog.unnest(%(topic_ids)s::pg_catalog.text[])
) AS taken (topic, partition, position, topic_id)
ON CONFLICT (pipeline, topic, partition) DO
UPDATE SET owner = excluded.owner, epoch = excluded.epoch, topic_id = coalesce(excluded.topic_id, held.topic_id)

-- name: begin
-- positions where there are none; those that somebody owns already stay
INSERT INTO {schema}.positions AS held (pipeline, topic, partition, position, owner, epoch, topic_id)
SELECT %(pipeline)s, topic, partition, position, %(token)s, %(epoch)s, topic_id
FROM ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
    pg_catalog.unnest(%(positions)s::bigint[]), pg_catalog.unnest(%(topic_ids)s::pg_catalog.text[])
) AS taken (topic, partition, position, topic_id)
ON CONFLICT (pipeline, topic, partition) DO NOTHING

-- name: renew
UPDATE {schema}.positions SET owner = %(token)s, epoch = %(epoch)s
WHERE pipeline = %(pipeline)s AND (topic, partition) IN (SELECT * FROM ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[])
))

-- name: heartbeat
UPDATE {schema}.pipelines SET seen_at = pg_catalog.clock_timestamp() WHERE pipeline = %(pipeline)s

-- name: note_guarantee
UPDATE {schema}.pipelines SET guarantee = %(guarantee)s WHERE pipeline = %(pipeline)s

-- name: archive_spans
-- a topic that was deleted and created again has other records at the same offsets: what was carried is kept beside
UPDATE {schema}.spans AS span SET topic = span.topic || '@' || held.topic_id
FROM (SELECT DISTINCT topic, topic_id FROM {schema}.positions WHERE pipeline = %(pipeline)s) AS held
JOIN ROWS FROM (pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(topic_ids)s::pg_catalog.text[]))
    AS now (topic, topic_id) USING (topic)
WHERE span.pipeline = %(pipeline)s AND span.topic = held.topic AND held.topic_id <> now.topic_id

-- name: forget
DELETE FROM {schema}.positions AS held
WHERE pipeline = %(pipeline)s AND topic = ANY (%(topics)s) AND NOT EXISTS (
    SELECT FROM ROWS FROM (
        pg_catalog.unnest(%(kept_topics)s::pg_catalog.text[]), pg_catalog.unnest(%(kept_partitions)s::integer[])
    ) AS kept (topic, partition)
    WHERE kept.topic = held.topic AND kept.partition = held.partition
)

-- name: hold
-- every position of a stream that keeps state, where it stands still, too: a takeover waits for it, or came before
SELECT held.partition FROM {schema}.positions AS held
JOIN ROWS FROM (
    pg_catalog.unnest(%(topics)s::pg_catalog.text[]), pg_catalog.unnest(%(partitions)s::integer[]),
    pg_catalog.unnest(%(positions)s::bigint[])
) AS span (topic, partition, position) USING (topic, partition)
WHERE held.pipeline = %(pipeline)s AND held.position = span.position AND held.owner = %(token)s
ORDER BY held.topic, held.partition FOR UPDATE OF held

-- name: stream
SELECT query, number, offsets, watermark, next_watermark, checkpoint FROM {schema}.streams
WHERE pipeline = %(pipeline)s

-- name: begin_stream
INSERT INTO {schema}.streams (pipeline, query, number, offsets, watermark, next_watermark, checkpoint)
VALUES (%(pipeline)s, %(query)s, %(number)s, %(offsets)s, %(watermark)s, %(next_watermark)s, %(checkpoint)s)
ON CONFLICT (pipeline) DO UPDATE
SET offsets = excluded.offsets, checkpoint = excluded.checkpoint, landed_at = pg_catalog.clock_timestamp()
WHERE streams.number = excluded.number

-- name: move_stream
UPDATE {schema}.streams
SET query = %(query)s, number = %(number)s, offsets = %(offsets)s, watermark = %(watermark)s,
    next_watermark = %(next_watermark)s, checkpoint = %(checkpoint)s, landed_at = pg_catalog.clock_timestamp()
WHERE pipeline = %(pipeline)s AND query = %(from_query)s AND number = %(from_number)s AND offsets = %(from_offsets)s

-- name: forget_stream
-- and that batches moved positions, of partitions that stay where they are, too: no batch of the next stream has
WITH forgotten AS (DELETE FROM {schema}.streams WHERE pipeline = %(pipeline)s)
UPDATE {schema}.positions SET moved_at = NULL WHERE pipeline = %(pipeline)s
