//! A client of Branchyard's API would be here. Its tests pin the answers that it reads.
