"""What an agent may see of a task, and screening of what it is shown or hands back."""
