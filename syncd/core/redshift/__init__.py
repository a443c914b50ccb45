"""What Redshift is told: names, types, tables and the statements of a landing. Texts only; nobody is asked here."""
