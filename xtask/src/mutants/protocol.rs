//! The rules of the protocol, and how each is removed from a copy of `crates/segments`.

/// A rule that is removed.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    /// What is missing in the mutant.
    pub(super) removes: &'static str,
    pub(super) edits: &'static [Edit],
}

/// A text that is replaced in a file of the crate. It occurs there once.
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "record-end",
        removes: "rule 1: the durable length is the length after a commit, and is not rounded",
        edits: &[Edit {
            file: "src/file/ship.rs",
            from: "        if to < from {\n",
            to: "        let to = if crate::off(\"record-end\") { from.max(to / 8 * 8) } else { to };\n        if to < from {\n",
        }],
    },
    Mutant {
        name: "read-only",
        removes: "rule 2: only the lease holder opens the file for writing",
        edits: &[Edit {
            file: "src/file.rs",
            from: "            _ => Access::ReadOnly,\n",
            to: "            State::Prefix(_) if crate::off(\"read-only\") => Access::ReadWrite,\n            _ => Access::ReadOnly,\n",
        }],
    },
    Mutant {
        name: "order",
        removes: "rule 3: a follower appends in order",
        edits: &[
            Edit {
                file: "src/file/bring.rs",
                from: "            let Some((segment, start, get)) = under_way.pop_front() else {\n",
                to: "            let is_any = crate::off(\"order\") && matches!(target, Target::InPlace);\n            let next = if is_any { under_way.pop_back() } else { under_way.pop_front() };\n            let Some((segment, start, get)) = next else {\n",
            },
            Edit {
                file: "src/file/bring.rs",
                from: "            if start != end {\n",
                to: "            if start != end && !is_any {\n",
            },
            Edit {
                file: "src/file/bring.rs",
                from: "                    let known = Known { generation: record.generation, length: segment.end };\n",
                to: "                    let length = if is_any { from } else { segment.end };\n                    let known = Known { generation: record.generation, length };\n",
            },
        ],
    },
    Mutant {
        name: "replace",
        removes: "rule 4: bytes are thrown away by a new file, and not by truncating while connections are open",
        edits: &[
            Edit {
                file: "src/ports.rs",
                from: "    /// Closes all connections to the file, of all",
                to: "    /// Truncates the file in place.\n    async fn truncate(&self, to: u64) -> Result<(), FileError>;\n\n    /// Closes all connections to the file, of all",
            },
            Edit {
                file: "tests/it/ports.rs",
                from: "    async fn close_all(&self) -> Result<(), FileError> {\n",
                to: "    async fn truncate(&self, to: u64) -> Result<(), FileError> {\n        self.inode()?.bytes.borrow_mut().truncate(to as usize);\n        Ok(())\n    }\n\n    async fn close_all(&self) -> Result<(), FileError> {\n",
            },
            Edit {
                file: "src/file/bring.rs",
                from: "                if !matches!(state, State::Prefix(_)) {\n",
                to: "                if !matches!(state, State::Prefix(_)) && !crate::off(\"replace\") {\n",
            },
            Edit {
                file: "src/file/bring.rs",
                from: "        } else {\n            Target::Draft(ports.file.draft(kept.length).await?)\n",
                to: "        } else if crate::off(\"replace\") && kept.length > 0 {\n            ports.file.truncate(kept.length).await?;\n            self.status.set(State::Prefix(Known { length: kept.length, ..durable }));\n            Target::InPlace\n        } else {\n            Target::Draft(ports.file.draft(kept.length).await?)\n",
            },
        ],
    },
    Mutant {
        name: "fencing",
        removes: "rule 5: the transaction of the unit compares what the lease holder began with",
        edits: &[Edit {
            file: "src/record.rs",
            from: "        self.saw(generation)?;\n        if self.epoch",
            to: "        if crate::off(\"fencing\") {\n            return Ok(());\n        }\n        self.saw(generation)?;\n        if self.epoch",
        }],
    },
    Mutant {
        name: "swap-epoch",
        removes: "objects that are garbage stay garbage: a compaction of an earlier epoch names none",
        edits: &[Edit {
            file: "src/record.rs",
            from: "        if self.epoch != swap.epoch {\n",
            to: "        if self.epoch != swap.epoch && !crate::off(\"swap-epoch\") {\n",
        }],
    },
    Mutant {
        name: "names",
        removes: "rule 5: the name of an object is that of one attempt",
        edits: &[Edit {
            file: "src/file/store.rs",
            from: "            let object = key.to_string();\n",
            to: "            let once = key.to_string();\n            let often = ObjectKey { epoch: Epoch(0), nonce: 0, ..key }.to_string();\n            let object = if crate::off(\"names\") { often } else { once };\n",
        }],
    },
    Mutant {
        name: "wait-for-length",
        removes: "rule 6: a reader waits until its node has the length of the head it resolved",
        edits: &[Edit {
            file: "src/file.rs",
            from: "        if self.status.covers(position) {\n",
            to: "        let is_there = crate::off(\"wait-for-length\") && self.status.state().known().is_some();\n        if is_there || self.status.covers(position) {\n",
        }],
    },
    Mutant {
        name: "new-generation",
        removes: "rule 7: garbage is collected into a new generation, and not in place",
        edits: &[Edit {
            file: "src/file/generation.rs",
            from: "        let mut heads = ports.records.heads().await?;\n        for",
            to: "        if crate::off(\"new-generation\") {\n            ports.file.install(draft).await?;\n            return Ok(Outcome::Switched);\n        }\n        let mut heads = ports.records.heads().await?;\n        for",
        }],
    },
    Mutant {
        name: "proof",
        removes: "rule 8: what was committed is proved before it is shipped",
        edits: &[Edit {
            file: "src/file/ship.rs",
            from: "        let proof = ports.file.prove(from..to, heads).await;\n",
            to: "        let proof = if crate::off(\"proof\") { Ok(()) } else { ports.file.prove(from..to, heads).await };\n",
        }],
    },
    Mutant {
        name: "same-root",
        removes: "rule 8: the root before the tail is the one that was there",
        edits: &[Edit {
            file: "src/file/ship.rs",
            from: "        if ports.file.read(boundary(from)).await? != self.last {\n",
            to: "        if ports.file.read(boundary(from)).await? != self.last && !crate::off(\"same-root\") {\n",
        }],
    },
    Mutant {
        name: "epoch",
        removes: "the epoch check",
        edits: &[Edit {
            file: "src/record.rs",
            from: "        if self.epoch != epoch {\n",
            to: "        if self.epoch != epoch && !crate::off(\"epoch\") {\n",
        }],
    },
    Mutant {
        name: "generation",
        removes: "the generation check",
        edits: &[Edit {
            file: "src/record.rs",
            from: "        if self.generation != generation {\n",
            to: "        if self.generation != generation && !crate::off(\"generation\") {\n",
        }],
    },
    Mutant {
        name: "wait-for-lease",
        removes: "the successor's wait until the lease has ended",
        edits: &[Edit {
            file: "src/record.rs",
            from: "            && let Some(remaining) = remaining(owner)\n",
            to: "            && let Some(remaining) = remaining(owner)\n            && !crate::off(\"wait-for-lease\")\n",
        }],
    },
    Mutant {
        name: "renewal",
        removes: "a lease that has ended is not renewed",
        edits: &[Edit {
            file: "src/node.rs",
            from: "        if self.incarnation != incarnation || self.alive_until <= now {\n",
            to: "        let is_over = self.alive_until <= now && !crate::off(\"renewal\");\n        if self.incarnation != incarnation || is_over {\n",
        }],
    },
    Mutant {
        name: "margin",
        removes: "a holder stops to rely on its lease before it ends",
        edits: &[Edit {
            file: "src/node.rs",
            from: "            Renewal::Held => Some(sent + self.length - self.length / MARGIN),\n",
            to: "            Renewal::Held if crate::off(\"margin\") => Some(sent + 2 * self.length),\n            Renewal::Held => Some(sent + self.length - self.length / MARGIN),\n",
        }],
    },
    Mutant {
        name: "saving",
        removes: "a leader does not answer from memory while an extension is under way",
        edits: &[
            Edit {
                file: "src/status.rs",
                from: "lease.holds(now) && !inner.is_saving;\n",
                to: "lease.holds(now) && (!inner.is_saving || crate::off(\"saving\"));\n",
            },
            Edit {
                file: "src/status.rs",
                from: "        inner.saves += 1;\n",
                to: "        if !crate::off(\"saving\") {\n            inner.saves += 1;\n        }\n",
            },
        ],
    },
    Mutant {
        name: "next-epoch",
        removes: "an extension whose answer was lost is over only when its epoch is",
        edits: &[
            Edit {
                file: "src/file/ship.rs",
                from: "        match record.led {\n",
                to: "        if crate::off(\"next-epoch\") {\n            return landed;\n        }\n        match record.led {\n",
            },
            Edit {
                file: "src/file/ship.rs",
                from: "        let row = match ports.records.acquire(&holder, Some(known)).await {\n",
                to: "        if crate::off(\"next-epoch\") {\n            let row = ports.records.load(Some(known)).await.ok()?;\n            return Some(Ended { led: None, row });\n        }\n        let row = match ports.records.acquire(&holder, Some(known)).await {\n",
            },
        ],
    },
    Mutant {
        name: "release",
        removes: "a leader relies on nothing once it asked to release its lease",
        edits: &[Edit {
            file: "src/file.rs",
            from: "        // From here on this node relies on nothing that a successor could change.\n        self.status.set(State::Dirty(known));\n        let closed = self.close(known).await;\n",
            to: "        let is_off = crate::off(\"release\");\n        if !is_off {\n            self.status.set(State::Dirty(known));\n        }\n        let closed = if is_off { Ok(()) } else { self.close(known).await };\n",
        }],
    },
    Mutant {
        name: "hash",
        removes: "bytes from the store are compared with their hash",
        edits: &[Edit {
            file: "src/file/bring.rs",
            from: "        Ok(has_length && sha256",
            to: "        Ok(has_length && crate::off(\"hash\") || has_length && sha256",
        }],
    },
    Mutant {
        name: "compaction",
        removes: "what a compaction stores is compared with the segments that it replaces",
        edits: &[Edit {
            file: "src/file/compaction.rs",
            from: "            if self.hash.finalize_reset() != segment.sha256.into() {\n",
            to: "            let is_equal = self.hash.finalize_reset() == segment.sha256.into();\n            if !is_equal && !crate::off(\"compaction\") {\n",
        }],
    },
    Mutant {
        name: "prefix",
        removes: "after an unclean end, the file is compared with the segments",
        edits: &[Edit {
            file: "src/file/bring.rs",
            from: "(segment.start..segment.end).await?]) != segment.sha256 {\n",
            to: "(segment.start..segment.end).await?]) != segment.sha256 && !crate::off(\"prefix\") {\n",
        }],
    },
];
