UPDATE emails SET is_verified = FALSE;
