"""What happens to records: pure logic, knows neither Spark nor the runtime."""
