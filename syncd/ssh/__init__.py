"""SSH tunnels and the SOCKS proxy that carries JDBC through them."""
