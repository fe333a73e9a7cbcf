-- When an administrator drained the node: what it leads and runs goes to other nodes. A restart of the node does not end that.
ALTER TABLE nodes ADD COLUMN drained_at BIGINT;
