"""What answers a request: asks the control plane for views, and hands them to the documents."""
